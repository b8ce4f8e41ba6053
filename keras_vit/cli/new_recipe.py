"""Write the text of a recipe for a data set."""

import json
import re
import textwrap
from dataclasses import fields, is_dataclass

from keras_vit.cli.new_data import DataFacts
from keras_vit.cli.new_model import ModelFacts
from keras_vit.cli.plan import ADAPTED, Plan
from keras_vit.models.model_names import find_named
from keras_vit.models.variants import BiTVariant

SHOWN = 10  # names of classes
_ROW_KINDS = (
    "BiTVariant",
    "ConvStem",
    "EfficientNetVariant",
    "ResNetStem",
    "Rope",
    "Variant",
)  # what a row of its own is made of


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
    crop = f'Augment(crop="inception", crop_area={plan.crop_area}, flip=True)'
    crop = "Augment()" if plan.cached else "Augment(shift=0.1, rotate=10)" if data.source == "digits" else crop
    imported = ["Augment", "Data", "Evaluate", "Loss", "Model", "Optimizer", "Recipe", "Schedule"]
    imported += ["Checkpoint"] * bool(data.validation_split) + ["Adapt"] * bool(plan.adapt)
    imported += [kind for kind in _ROW_KINDS if re.search(rf"\b{kind}\(", _row(model))]
    imported = ", ".join(sorted(imported))
    bias = f", head_bias={data.head_bias}" if data.multi else ""
    fine = model.fine_tuned
    fixed = plan.cached or isinstance(model.row or find_named(model.name)[0], BiTVariant)
    depth = "" if fixed else ", drop_path_rate=0.1"
    layers = ", layer_decay=0.75" if fine and plan.adapt is None else ""
    title = f"Fine-tune {model.name} on" if fine else f"Train {model.name} from random weights on"
    size = f"An update takes {plan.batch} images, so an epoch has {plan.updates:,} updates. "
    size += "Halve batch_size if the memory is too "
    changes = "Random changes to the training images."
    changes += "" if data.source == "digits" else " Set flip=False if left and right matter, as in text."
    changes = "No random changes to the images, so the input of the head is computed once." if plan.cached else changes
    return f'''"""{title} {_text(_place(data))}.

{_note("Command:", command)}
{_note("Data:", _data_note(data, day))}
Hardware: not run yet.
Time:     not run yet.
Figure:   not run yet.
{_note("Source:", _source(fine, plan.adapt))}
"""

from keras_vit.train.recipe import {imported}

recipe = Recipe(
    {_string(name)},
{_comment(_model_note(data, model) + " The bias of the head is the log odds of a label." * data.multi)}
    Model({_row(model)}, {_sizes(model)}{depth}{bias}),
{_comment(f"{size}small.{_broken_note(data)}")}
    Data({_data_arguments(data, plan.batch)}{", cache_features=True" if plan.cached else ""}),
{_comment(changes)}
    {crop},
{_comment("If the loss rises, or stays where it began, try a third of this learning rate.")}
    Optimizer("adamw", learning_rate={plan.learning_rate:g}, weight_decay=0.05, clip_norm=1.0{layers}),
{_comment("The rate rises over the first updates, then falls to zero along a cosine.")}
    Schedule("cosine", warmup_steps={plan.warmup}),
{_loss(data, plan)}
{_evaluation(data, plan)}
{_adapt(plan)}    epochs={plan.epochs},
)
'''


def _adapt(plan: Plan) -> str:
    """Return the lines about parameter-efficient fine-tuning, or an empty text."""
    if plan.adapt is None:
        return ""
    rank = f", rank={plan.adapt.size}" if plan.adapt.size else ""
    note = "The head alone is trained." if plan.adapt.kind == "probe" else "Few variables and the head are trained."
    note += " `docs/adapting.md` has all kinds."
    return f'{_comment(note)}\n    adapt=Adapt("{plan.adapt.kind}"{rank}),\n'


def _loss(data: DataFacts, plan: Plan) -> str:
    """Return the line of the loss, and a comment where it is not the usual one."""
    kind = {"numbers": "huber"}.get(data.targets.kind, "sigmoid" if data.multi else "softmax")
    if data.targets.order:
        kind = "ordinal"
    smoothing = ", label_smoothing=0.1" if kind == "softmax" and data.targets.kind == "classes" else ""
    adjustment = ", logit_adjustment=1.0" if plan.adjusts else ""
    notes = {"huber": "The values are standardised by the training split; the model answers in their units. ",
             "sigmoid": "An image has several labels or none; class_weights=\"balanced\" helps rare ones. ",
             "ordinal": "The classes are ordered, the lowest first. "}  # fmt: skip
    note = notes.get(kind, "")
    if adjustment:
        note += "Rare classes count more, by logit adjustment (arXiv 2007.07314). The mean accuracy of the classes "
        note += "rises; the accuracy may fall."
    return (f"{_comment(note)}\n" if note else "") + f'    Loss("{kind}"{smoothing}{adjustment}),'


def _evaluation(data: DataFacts, plan: Plan) -> str:
    """Return the lines about evaluations, and about the selection of weights with a validation split."""
    metrics = ', metrics=("accuracy", "mean_average_precision")' if data.multi else ""
    if data.validation_split is None:
        often = "each epoch" if plan.every == 1 else "every tenth epoch"
        often = _comment(f"Measure the test split after {often}.")
        return f"{often}\n    evaluate=Evaluate(every={plan.every}{metrics}),"
    stop = (
        f"Measure the validation split after each epoch, and stop after {plan.patience} epochs without a "
        f"{better(data)}. The best weights are the result; the test split measures them once, at the end."
    )
    split = _string(data.validation_split)
    measured = f"every={plan.every}, split={split}, patience={plan.patience}{metrics}"
    return (f"{_comment(stop)}\n    evaluate=Evaluate({measured}),\n"
            "    checkpoint=Checkpoint(best=True, use_best=True),")  # fmt: skip


def better(data: DataFacts) -> str:
    """Return what a better evaluation has, such as `higher accuracy`."""
    if data.targets.kind == "numbers":
        return "lower loss"
    return f"higher {'mean average precision' if data.multi else 'kappa' if data.targets.order else 'accuracy'}"


def _place(data: DataFacts) -> str:
    places = {"digits": "scikit-learn's digits", "folder": f"the images in {data.directory}"}
    return (places | {"csv": f"the images of {data.directory}"}).get(data.source, data.source)


def _data_note(data: DataFacts, day: str) -> str:
    names = ", ".join(data.labels[:SHOWN]) + (f", and {len(data.labels) - SHOWN:,} more" * (len(data.labels) > SHOWN))
    side = f" The median of the shorter sides is {data.side} pixels." if data.side else ""
    validation = f", {data.validation:,} validation" if data.validation_split else ""
    numbers = data.targets.kind == "numbers"
    what = f"with values of {names}" if numbers else f"of {len(data.labels):,} classes ({names})"
    what = f"with several of {len(data.labels):,} labels ({names})" if data.multi else what
    counts = f"{data.train:,} training{validation} and {data.test:,} test images"
    return f"{counts} {what}, counted on {day}. {data.split_note}{side}"


def _source(fine_tuned: bool, adapt=None) -> str:
    if adapt is not None:
        return f"{ADAPTED[adapt.kind].source}, with AdamW."
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
    what = "labels" if data.multi else "classes"
    return f"The classifier gets one output for each of the {len(data.labels):,} {what}. {weights}"


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
    if targets.kind not in ("classes", "several"):
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
