"""Report differences between a model and its file, and the values that are assumed because nothing states them."""

import sys

from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of
from keras_vit.weights.architecture import origin
from keras_vit.weights.contents import Contents
from keras_vit.weights.efficientnets import ASSUMED
from keras_vit.weights.model_architecture import architecture_of_model


def preprocessing_notes(model, spec: ImageSpec | None) -> list[str]:
    """Return sentences about preprocessing that is assumed, or is not scaling to [-1, 1].

    Args:
        model: the model.
        spec: preprocessing that the file's config states; None if nothing states it.
    """
    if spec is None:
        return ["assumed, because no config states it: its images are scaled to [-1, 1], as by preprocess_input"]
    if spec.is_plain_scaling:
        return []
    if any(layer.name == "rescaling" for layer in model.layers):
        return [f"its layer 'rescaling' normalises pixels as the config states: {spec}"]
    return [f"its images are not scaled to [-1, 1] as by preprocess_input; model.preprocessing says how: {spec}"]


def print_preprocessing(model, source: str) -> None:
    """Print the preprocessing of a `.keras` file's model, unless it is scaling to [-1, 1]."""
    if len(model.inputs) == 1:
        for sentence in preprocessing_notes(model, preprocessing_of(model)):
            print(f"{source}: {sentence}", file=sys.stderr)


def difference_notes(model, contents: Contents, fields: dict, chosen=()) -> list[str]:
    """Return sentences about differences between a model and its file, and about assumed fields.

    Args:
        model: the model.
        contents: the file's contents.
        fields: the result of `config_fields`.
        chosen: names of the fields that the caller chose.
    """
    layout = contents.layout
    if layout.name == "keras":
        return []
    architecture = architecture_of_model(model)
    notes, assumed = [], {}
    known = (architecture.options.get(name, False) for name in ("pre_norm", "gated_mlp"))
    for name, default in origin(layout, architecture.family, architecture.units is not None, *known).items():
        value = getattr(architecture, name)
        if name in fields and value != fields[name]:
            notes.append(f"the model has {name}={value!r}, the file's config states {fields[name]!r}")
        elif name in fields or name in chosen:
            continue
        elif value != default:
            notes.append(f"the model has {name}={value!r}, files of this layout come from {default!r}")
        elif name in layout.varying:
            assumed[name] = value
    if architecture.family == "efficientnet" and layout.name == "timm" and "architecture" not in fields:
        notes.append(f"assumed, because no config names the architecture: {ASSUMED}")
    if architecture.family == "vit":
        assumed |= {
            name: getattr(architecture, name)
            for name in _hidden_fields(architecture, contents)
            if name not in {*fields, *chosen}
        }
    if assumed:
        values = ", ".join(f"{name}={value!r}" for name, value in sorted(assumed.items()))
        notes.append(f"assumed, because neither the file nor its config states them: {values}")
    if (
        layout.name == "timm"
        and architecture.family == "vit"
        and not (any(fields.values()) or architecture.options.get("rope"))
    ):
        norms = architecture.options.get("block", "pre_norm") == "pre_norm"
        unseen = "no rotary positions" + ", and norms at the start of the branches" * norms
        notes.append(f"assumed, because no config names the architecture: {unseen}, which no array shows")
    return notes


def _hidden_fields(architecture, contents: Contents) -> list[str]:
    """Return further fields that the shapes of a file do not show."""
    names = []
    shown = architecture.options.get("relative_bias") == "decomposed"  # by the width of the tables
    if architecture.depth and not (shown or any(entry.heads for entry in contents.entries.values())):
        names.append("num_heads")
    if (
        contents.layout.name == "timm"
        and architecture.classes
        and architecture.class_token
        and architecture.pooling == "token"
    ):
        names.append("pooling")
    return names


def record_source(model, source) -> None:
    """Record which file or tag the weights of a model were loaded from. The record is not saved with the model."""
    model.weights_source = str(source)


def source_of(model) -> str | None:
    """Return the file or tag that the weights of a model were loaded from; None if no file was loaded."""
    return getattr(model, "weights_source", None)
