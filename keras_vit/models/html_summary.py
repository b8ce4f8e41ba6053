"""Describe a model as HTML, which a notebook shows where the model is the result of a cell."""

import html
import math

import keras

from keras_vit.preprocessing.image_spec import preprocessing_of
from keras_vit.weights.architecture import Architecture
from keras_vit.weights.model_architecture import architecture_of_model
from keras_vit.weights.notes import source_of


def html_summary(model: keras.Model) -> str:
    """Return a table of a model's family, input, outputs, parameters, preprocessing and the origin of its weights."""
    rows = {
        "family": _family(model),
        "input": ", ".join(_shape(tensor.shape) for tensor in model.inputs),
        "output": ", ".join(_shape(tensor.shape) for tensor in model.outputs),
        "parameters": _parameters(model),
        "preprocessing": str(preprocessing_of(model)) if len(model.inputs) == 1 else None,
        "weights": _weights(model),
    }
    cells = "".join(
        f'<tr><th style="text-align: left">{name}</th><td style="text-align: left">{html.escape(value)}</td></tr>'
        for name, value in rows.items()
        if value
    )
    return f"<table><caption><b>{html.escape(model.name)}</b></caption>{cells}</table>"


def _shape(shape) -> str:
    return " × ".join("any" if side is None else str(side) for side in shape[1:])


def _family(model) -> str | None:
    """Return the family with its sizes; None for a model that is not of the tables, such as one of named features."""
    try:
        row = architecture_of_model(model)
    except ValueError:
        return None
    if row.family == "efficientnet":
        return f"EfficientNet: {' + '.join(map(str, row.units or ()))} units"
    if row.family == "bit":
        return f"{'Axial ' if row.axial else ''}ResNet (BiT): {_stages(row)}"
    stem = f"hybrid: ResNet of {_stages(row)}, then " if row.units else ""
    kind = "axial Vision Transformer" if row.axial else "Vision Transformer"
    patch = "{} × {}".format(*row.patch_size)
    sizes = f"{row.depth} blocks, width {row.width}, {row.num_heads} heads, patches of {patch}"
    return f"{stem}{kind}: {sizes}{' cells' if row.units else ''}"


def _stages(row: Architecture) -> str:
    return f"{' + '.join(map(str, row.units or ()))} units, width factor {row.width_factor:g}"


def _parameters(model) -> str:
    total, trained = model.count_params(), sum(math.prod(variable.shape) for variable in model.trainable_variables)
    return f"{total:,}" if trained == total else f"{total:,}; {trained:,} are trained"


def _weights(model) -> str:
    """Return where the weights come from, and how many updates `fit` has made since."""
    source = source_of(model)
    origin = "initial values, or set in Python" if source is None else f"loaded from {source}"
    optimizer = getattr(model, "optimizer", None)
    steps = 0 if optimizer is None else int(keras.ops.convert_to_numpy(optimizer.iterations))
    return f"{origin}, then trained for {steps:,} updates" if steps else origin
