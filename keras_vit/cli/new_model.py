"""Choose the model of a recipe, and its sizes for a data set."""

from dataclasses import dataclass
from pathlib import Path

from keras_vit.cli.new_data import DataFacts
from keras_vit.models.model_names import find_named
from keras_vit.models.variants import AnyVariant, BiTVariant, ConvNet
from keras_vit.models.variants.lookup import ROWS

FINE_TUNED = "vit_small_patch16_224.augreg_in21k"  # the model of recipes/image_folder.py
FROM_SCRATCH = "ViT_Ti16"  # of scikit-learn's digits, which are too small for published weights
PATCHES = 8  # along each side of images that are too small for the model's own patches


@dataclass(frozen=True)
class ModelFacts:
    """The model of a recipe.

    Args:
        name: its name.
        fine_tuned: whether its weights are published ones.
        image_size, patch_size: its sizes in pixels, if they are not the row's.
        channels: channels of its images.
        weights: the file of its weights.
        row: its row, if the tables have none of this name.
        pooling: its pooling, if it is not the class token.
    """

    name: str
    fine_tuned: bool
    image_size: int
    patch_size: int | None
    channels: int
    weights: str | None = None
    row: AnyVariant | None = None
    pooling: str | None = None


def _file_facts(file: str) -> ModelFacts:
    """Return the model of a file of weights."""
    from keras_vit.models.rows_from_weights import row_of_file

    row, size, pooling = row_of_file(file)
    known = next((known for known in ROWS if known.name == row.name), None)
    size = size[0] if size else row.image_size
    return ModelFacts(row.name, True, size, None, 3, file, None if known else row,
                      None if pooling == "token" or isinstance(row, ConvNet) else pooling)  # fmt: skip


def model_facts(name: str | None, data: DataFacts) -> ModelFacts:
    """Return the model for a data set, and sizes that fit its images.

    Published weights keep the image size that they were trained with. A new model takes images of at most the data's
    median size. Images of fewer than four patches a side are cut into eight smaller ones.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
    if name and Path(name).exists():
        return _file_facts(name)
    name = name or (FROM_SCRATCH if data.source == "digits" else FINE_TUNED)
    row, released = find_named(name)
    own = row.image_size if not isinstance(row, BiTVariant) else 224
    if released is not None:
        return ModelFacts(name, True, own, None, 3)
    channels = 1 if data.grey else 3
    if data.side is None or data.side >= own:
        return ModelFacts(name, False, own, None, channels)
    if isinstance(row, ConvNet) or row.stem:
        return ModelFacts(name, False, max(data.side // 32 * 32, 128), None, channels)
    if data.side >= 4 * row.patch_size:
        return ModelFacts(name, False, data.side // row.patch_size * row.patch_size, None, channels)
    patch = max(data.side // PATCHES, 2)
    return ModelFacts(name, False, max(data.side // patch, 1) * patch, patch, channels)
