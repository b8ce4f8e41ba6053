"""Write the text of a recipe for a data set."""

import json
import re
import textwrap
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from keras_vit.cli.new_data import DataFacts
from keras_vit.cli.plan import Plan
from keras_vit.models.model_names import find_named
from keras_vit.models.variants import AnyVariant, BiTVariant, ConvNet
from keras_vit.models.variants.lookup import ROWS

FINE_TUNED = "vit_small_patch16_224.augreg_in21k"  # the model of recipes/image_folder.py
FROM_SCRATCH = "ViT_Ti16"  # of scikit-learn's digits, which are too small for published weights
PATCHES = 8  # along each side of images that are too small for the model's own patches
SHOWN = 10  # names of classes
_ROW_KINDS = (
    "BiTVariant",
    "ConvStem",
    "EfficientNetVariant",
    "ResNetStem",
    "Rope",
    "Variant",
)  # what a row of its own is made of


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


def recipe_text(name: str, data: DataFacts, model: ModelFacts, plan: Plan, command: str, day: str) -> str:
    """Return the Python file of a recipe.

    Args:
        name: name of the recipe.
        data: the data set.
        model: the model.
        plan: the numbers that depend on the size of the data.
        command: the command that trains the recipe.
        day: the day on which the data was read.
    """
    crop = {"digits": "Augment(shift=0.1, rotate=10)"}.get(
        data.source, f'Augment(crop="inception", crop_area={plan.crop_area}, flip=True)'
    )
    imported = ["Augment", "Data", "Evaluate", "Loss", "Model", "Optimizer", "Recipe", "Schedule"]
    imported += ["Checkpoint"] if data.validation_split else []
    imported += [kind for kind in _ROW_KINDS if re.search(rf"\b{kind}\(", _row(model))]
    imported = ", ".join(sorted(imported))
    bias = ", head_bias=-10.0" if data.multi else ""
    fine = model.fine_tuned
    depth = "" if isinstance(model.row or find_named(model.name)[0], BiTVariant) else ", drop_path_rate=0.1"
    layers = ", layer_decay=0.75" if fine else ""
    title = f"Fine-tune {model.name} on" if fine else f"Train {model.name} from random weights on"
    size = f"An update takes {plan.batch} images, so an epoch has {plan.updates:,} updates. "
    size += "Halve batch_size if the memory is too "
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

from keras_vit.train.recipe import {imported}

recipe = Recipe(
    {_string(name)},
{_comment(_model_note(data, model))}
    Model({_row(model)}, {_sizes(model)}{depth}{bias}),
{_comment(f"{size}small.{_broken_note(data)}")}
    Data({_data_arguments(data, plan.batch)}),
{_comment(changes)}
    {crop},
{_comment("If the loss rises, or stays where it began, try a third of this learning rate.")}
    Optimizer("adamw", learning_rate={plan.learning_rate:g}, weight_decay=0.05, clip_norm=1.0{layers}),
{_comment("The rate rises over the first updates, then falls to zero along a cosine.")}
    Schedule("cosine", warmup_steps={plan.warmup}),
{_loss(data, plan)}
{_evaluation(data, plan)}
    epochs={plan.epochs},
)
'''


def _loss(data: DataFacts, plan: Plan) -> str:
    """Return the line of the loss, and a comment where it is not the usual one."""
    kind = {"numbers": "huber"}.get(data.targets.kind, "sigmoid" if data.multi else "softmax")
    if data.targets.order:
        kind = "ordinal"
    smoothing = ", label_smoothing=0.1" if kind == "softmax" and data.targets.kind == "classes" else ""
    adjustment = ", logit_adjustment=1.0" if plan.adjusts else ""
    notes = {"huber": "The values are standardised by the training split; the model answers in their units. ",
             "ordinal": "The classes are ordered, the lowest first. "}  # fmt: skip
    note = notes.get(kind, "")
    if adjustment:
        note += "Rare classes count more, by logit adjustment (arXiv 2007.07314). The mean accuracy of the classes "
        note += "rises; the accuracy may fall."
    return (f"{_comment(note)}\n" if note else "") + f'    Loss("{kind}"{smoothing}{adjustment}),'


def _evaluation(data: DataFacts, plan: Plan) -> str:
    """Return the lines about evaluations, and about the selection of weights with a validation split."""
    if data.validation_split is None:
        often = "each epoch" if plan.every == 1 else "every tenth epoch"
        return f"{_comment(f'Measure the test split after {often}.')}\n    evaluate=Evaluate(every={plan.every}),"
    stop = (
        f"Measure the validation split after each epoch, and stop after {plan.patience} epochs without a "
        f"{better(data)}. The best weights are the result; the test split measures them once, at the end."
    )
    split = _string(data.validation_split)
    return (f"{_comment(stop)}\n    evaluate=Evaluate(every={plan.every}, split={split}, patience={plan.patience}),\n"
            "    checkpoint=Checkpoint(best=True, use_best=True),")  # fmt: skip


def better(data: DataFacts) -> str:
    """Return what a better evaluation has, such as `higher accuracy`."""
    return "lower loss" if data.targets.kind == "numbers" else f"higher {'kappa' if data.targets.order else 'accuracy'}"


def _place(data: DataFacts) -> str:
    places = {"digits": "scikit-learn's digits", "folder": f"the images in {data.directory}"}
    return (places | {"csv": f"the images of {data.directory}"}).get(data.source, data.source)


def _data_note(data: DataFacts, day: str) -> str:
    names = ", ".join(data.labels[:SHOWN]) + (f", and {len(data.labels) - SHOWN:,} more" * (len(data.labels) > SHOWN))
    side = f" The median of the shorter sides is {data.side} pixels." if data.side else ""
    validation = f", {data.validation:,} validation" if data.validation_split else ""
    numbers = data.targets.kind == "numbers"
    what = f"with values of {names}" if numbers else f"of {len(data.labels):,} classes ({names})"
    counts = f"{data.train:,} training{validation} and {data.test:,} test images"
    return f"{counts} {what}, counted on {day}. {data.split_note}{side}"


def _source(fine_tuned: bool) -> str:
    if fine_tuned:
        return ("the official fine-tuning (arXiv 2010.11929, appendix B.1.1), but with AdamW and layer-wise learning "
                "rates (arXiv 2106.08254).")  # fmt: skip
    return "AdamW, cropping and label smoothing, as is common for training from random weights (arXiv 2106.10270)."


def _model_note(data: DataFacts, model: ModelFacts) -> str:
    weights = (
        f"The weights are read from {model.weights}, without its classifier."
        if model.weights
        else "The published weights are downloaded when training begins; `keras-vit weights find` lists others."
        if model.fine_tuned
        else "The weights begin at random; `keras-vit weights find` lists published ones."
    )
    if data.targets.kind == "numbers":
        return f"The head gets one output for each of {', '.join(data.labels)}. {weights}"
    return f"The classifier gets one output for each of the {len(data.labels):,} classes. {weights}"


def _broken_note(data: DataFacts) -> str:
    return f" on_error leaves out files that cannot be read: {data.broken:,}." if data.broken else ""


def _row(model: ModelFacts) -> str:
    """Return how a recipe states its model: by name, or by a row of its own."""
    return _string(model.name) if model.row is None else _constructed(model.row)


def _constructed(row) -> str:
    """Return the call that makes a row, with the fields that are not the defaults."""
    changed = [field.name for field in fields(row) if getattr(row, field.name) != field.default]
    values = ((name, getattr(row, name)) for name in changed)
    arguments = (f"{name}={_constructed(value) if is_dataclass(value) else repr(value)}" for name, value in values)
    return f"{type(row).__name__}({', '.join(arguments)})"


def _sizes(model: ModelFacts) -> str:
    sizes = f"weights={_string(model.weights)}, " if model.weights else ""
    sizes += f"image_size={model.image_size}"
    sizes += f", patch_size={model.patch_size}" if model.patch_size else ""
    sizes += f", pooling={_string(model.pooling)}" if model.pooling else ""
    return sizes + (", channels=1" if model.channels == 1 else "")


def _data_arguments(data: DataFacts, batch: int) -> str:
    arguments = [_string(data.source)]
    arguments += [f"directory={_string(data.directory)}"] if data.directory else []
    arguments += [f"train_split={_string(data.train_split)}"] if data.train_split != "train" else []
    arguments += [f"test_split={_string(data.test_split)}"] if data.test_split != "test" else []
    targets = data.targets
    if targets.kind != "classes":
        arguments += [f"targets={_string(targets.kind)}", f"columns={_names(targets.columns)}"]
    arguments += [f"classes={_names(targets.order)}"] if targets.order else []
    arguments += [f"batch_size={batch}", *(['on_error="skip"'] if data.broken else [])]
    return ", ".join(arguments)


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(_string, names))},)"


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
