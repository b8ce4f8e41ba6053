"""Load a model from the folder of a training run, from a file of weights, or by its name."""

import os
import zipfile
from pathlib import Path

import keras

from keras_vit.models.builders import create_model
from keras_vit.models.model_names import find_source, holds_model
from keras_vit.models.pretrained import from_pretrained
from keras_vit.models.rows_from_weights import row_of
from keras_vit.weights import is_keras_model, is_weights
from keras_vit.weights.complete_config import is_published
from keras_vit.weights.keras_file import read_model
from keras_vit.weights.keras_hub_files import find_keras_hub
from keras_vit.weights.notes import print_preprocessing, record_source


def load_model(source: str | os.PathLike) -> keras.Model:
    """Load or build the Keras model of a source. The model is not compiled.

    Args:
        source: a workdir that holds `model.keras`, a `.keras` or whole-model `.h5` file, a published file or folder of
            weights, `hf://ORG/NAME` or a tag (see `from_pretrained`), or the name of a model (see `create_model`). A
            name without a weights tag means a model with initial values.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the file is not a model or does not determine one, or no model has this name.
    """
    if is_published(source):
        return _from_weights(str(source))
    path = Path(source)
    if (path / "model.keras").is_file():
        path = path / "model.keras"
    if path.is_dir():
        if not holds_model(path):
            raise ValueError(
                f"model expected a folder that holds model.keras or one file of weights, received {str(source)!r}, "
                "which does not."
            )
        return _from_weights(path)
    if path.is_file():
        return _from_weights(path) if is_weights(path) or find_keras_hub(path) else _read(path)
    if is_keras_model(path) or is_weights(path):
        raise FileNotFoundError(f"model expected a {path.suffix} file, found nothing at {str(source)!r}.")
    find_source(source)
    return create_model(str(source))


def _from_weights(path: Path | str) -> keras.Model:
    try:
        model = from_pretrained(path)
    except ValueError as error:
        if not str(error).startswith(("num_heads ", "input_shape ", "source_grid ")):
            raise
        advice = "keras-vit weights convert IN OUT.keras takes --num-heads and --source-grid"
        raise ValueError(f"{str(error).removesuffix('.')}; {advice}, and its OUT.keras opens as it is.") from None
    if model.input_shape[1] is None and "position_embedding" not in {layer.name for layer in model.layers}:
        # The file of a ResNet states no image size, which prediction and analysis need.
        return from_pretrained(path, input_shape=(row_of(model).image_size,) * 2 + model.input_shape[3:])
    return model


def _read(path: Path) -> keras.Model:
    whole = zipfile.is_zipfile(path) if path.suffix == ".keras" else is_keras_model(path)
    if not whole:
        raise ValueError(
            f"model expected a .keras or .h5 file or a file of weights, received {str(path)!r}, which is none."
        )
    try:
        model = read_model(path)
    except ValueError as error:
        raise ValueError(
            f"model expected a {path.suffix} file of this package, received {str(path)!r}: {error}"
        ) from error
    print_preprocessing(model, str(path))
    record_source(model, path)
    return model
