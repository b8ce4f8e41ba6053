"""Write the text of a recipe for a data set."""

import json
import textwrap
from dataclasses import dataclass

from keras_vit.cli.new_data import DataFacts
from keras_vit.models.model_names import find_named
from keras_vit.models.variants import BiTVariant, ConvNet

FINE_TUNED = "vit_small_patch16_224.augreg_in21k"  # the model of recipes/image_folder.py
FROM_SCRATCH = "ViT_Ti16"  # of scikit-learn's digits, which are too small for published weights
PATCHES = 8  # along each side of images that are too small for the model's own patches
LARGEST_BATCH = 32
SHOWN = 10  # names of classes


@dataclass(frozen=True)
class ModelFacts:
    """The model of a recipe: its name, whether its weights are published ones, and its sizes in pixels."""

    name: str
    fine_tuned: bool
    image_size: int
    patch_size: int | None
    channels: int


def model_facts(name: str | None, data: DataFacts) -> ModelFacts:
    """Return the model for a data set, and sizes that fit its images.

    Published weights keep the image size that they were trained with. A new model takes images of at most the data's
    median size. Images of fewer than four patches a side are cut into eight smaller ones.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
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


def recipe_text(name: str, data: DataFacts, model: ModelFacts, command: str, day: str) -> str:
    """Return the Python file of a recipe.

    Args:
        name: name of the recipe.
        data: the data set.
        model: the model.
        command: the command that trains the recipe.
        day: the day on which the data was read.
    """
    batch = _batch_size(data.train)
    steps = data.train // batch
    epochs = 10 if model.fine_tuned else 20 if data.source == "digits" else 100
    warmup = max(1, min(500, steps * epochs // 10))
    crop = {"digits": "Augment(shift=0.1, rotate=10)"}.get(
        data.source, f'Augment(crop="inception", crop_area={0.3 if model.fine_tuned else 0.2}, flip=True)'
    )
    kind, bias = ("sigmoid", ", head_bias=-10.0") if data.multi else ("softmax", "")
    fine = model.fine_tuned
    title = f"Fine-tune {model.name} on" if fine else f"Train {model.name} from random weights on"
    size = (
        f"An update takes {batch} images, so an epoch has {steps:,} updates. Halve batch_size if the memory does not "
    )
    changes = "Random changes to the training images."
    changes += "" if data.source == "digits" else " Set flip=False if left and right matter, as in text."
    return f'''"""{title} {_text(_place(data))}.

{_note("Command:", command)}
{_note("Data:", _data_note(data, day))}
Hardware: not run yet.
Time:     not run yet.
Figure:   not run yet.
{_note("Source:", _source(fine))}
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

recipe = Recipe(
    {_string(name)},
{_comment(_model_note(data, model))}
    Model({_string(model.name)}, {_sizes(model)}, drop_path_rate=0.1{bias}),
{_comment(f"{size}small.{_broken_note(data)}")}
    Data({_data_arguments(data, batch)}),
{_comment(changes)}
    {crop},
{_comment("If the loss rises, or stays where it began, try a third of this learning rate.")}
    Optimizer("adamw", learning_rate=1e-3, weight_decay=0.05, clip_norm=1.0{", layer_decay=0.75" if fine else ""}),
{_comment("The rate rises over the first updates, then falls to zero along a cosine.")}
    Schedule("cosine", warmup_steps={warmup}),
    Loss("{kind}"{"" if data.multi else ", label_smoothing=0.1"}),
{_comment("Measure the test split after each epoch." if fine else "Measure the test split after every tenth epoch.")}
    evaluate=Evaluate(every={1 if fine else 10}),
    epochs={epochs},
)
'''


def _batch_size(train: int) -> int:
    """Return a power of two that leaves at least four updates in an epoch, at most `LARGEST_BATCH`."""
    batch = LARGEST_BATCH
    while batch > 1 and batch * 4 > train:
        batch //= 2
    return batch


def _place(data: DataFacts) -> str:
    return {"digits": "scikit-learn's digits", "folder": f"the images in {data.directory}"}.get(
        data.source, data.source
    )


def _data_note(data: DataFacts, day: str) -> str:
    names = ", ".join(data.labels[:SHOWN]) + (f", and {len(data.labels) - SHOWN:,} more" * (len(data.labels) > SHOWN))
    side = f" The median of the shorter sides is {data.side} pixels." if data.side else ""
    return (f"{data.train:,} training and {data.test:,} test images of {len(data.labels):,} classes ({names}), counted "
            f"on {day}. {data.split_note}{side}")  # fmt: skip


def _source(fine_tuned: bool) -> str:
    if fine_tuned:
        return ("the official fine-tuning (arXiv 2010.11929, appendix B.1.1), but with AdamW and layer-wise learning "
                "rates (arXiv 2106.08254).")  # fmt: skip
    return "AdamW, cropping and label smoothing, as is common for training from random weights (arXiv 2106.10270)."


def _model_note(data: DataFacts, model: ModelFacts) -> str:
    weights = (
        "The published weights are downloaded when training begins; `keras-vit weights find` lists others."
        if model.fine_tuned
        else "The weights begin at random; `keras-vit weights find` lists published ones."
    )
    return f"The classifier gets one output for each of the {len(data.labels):,} classes. {weights}"


def _broken_note(data: DataFacts) -> str:
    return f" on_error leaves out files that cannot be read: {data.broken:,}." if data.broken else ""


def _sizes(model: ModelFacts) -> str:
    sizes = f"image_size={model.image_size}"
    sizes += f", patch_size={model.patch_size}" if model.patch_size else ""
    return sizes + (", channels=1" if model.channels == 1 else "")


def _data_arguments(data: DataFacts, batch: int) -> str:
    arguments = [_string(data.source)]
    arguments += [f"directory={_string(data.directory)}"] if data.directory else []
    arguments += [f"train_split={_string(data.train_split)}"] if data.train_split != "train" else []
    arguments += [f"test_split={_string(data.test_split)}"] if data.test_split != "test" else []
    arguments += [f"batch_size={batch}", *(['on_error="skip"'] if data.broken else [])]
    return ", ".join(arguments)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(text: str) -> str:
    """Return a text that can stand in a docstring."""
    return _string(text)[1:-1]


def _note(title: str, text: str) -> str:
    return textwrap.fill(f"{title:<10}{_text(text)}", 116, subsequent_indent=" " * 10, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _comment(text: str) -> str:
    return textwrap.fill(text, 116, initial_indent="    # ", subsequent_indent="    # ")
