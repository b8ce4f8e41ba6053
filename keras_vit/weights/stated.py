"""Read what a file's config states about its model, and report what is assumed.

Shapes do not show the number of heads, the activation, the epsilon or the pooling. A config states them, or names an
architecture of timm that implies them. Otherwise the report lists what is assumed.
"""

import sys

from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of
from keras_vit.weights.architecture import architecture_of_model, origin
from keras_vit.weights.architectures import named
from keras_vit.weights.configs import read_config
from keras_vit.weights.contents import Contents

# transformers' models that compute the same as this package. Others have the same names of arrays, but differ.
_MODEL_TYPES = ("vit", "vit_mae", "vit_msn", "ijepa", "dpt", "bit", "vit-hybrid", "vit_hybrid")


def stated(file, contents: Contents) -> dict:
    """Return what a file's config states, as fields of `Architecture`.

    Args:
        file: one of `keras_vit.weights.files`.
        contents: the file's contents.

    Raises:
        ValueError: the config states a value that this package does not support.
    """
    layout, config = contents.layout.name, file.config
    fields = read_config(config, layout, contents.source)
    if layout == "hf":
        _require_same_model(config, contents)
    row = named(config) if layout == "timm" and contents.family == "vit" else None
    return fields if row is None else {**row.stated, **fields}


def _require_same_model(config: dict, contents: Contents) -> None:
    """Raise a ValueError if a transformers config states a model that computes something else."""
    where = f"the config beside {contents.source!r} expected"
    kind = config.get("model_type", "vit")
    if kind not in _MODEL_TYPES:
        raise ValueError(f"{where} 'model_type' to be one of {_MODEL_TYPES}, received {kind!r}.")
    pooler = config.get("pooler_act", "tanh")
    if "pre_logits/kernel" in contents.entries and pooler != "tanh":
        raise ValueError(f"{where} 'pooler_act' to be 'tanh', the only one that is supported, received {pooler!r}.")


def images_note(model, spec: ImageSpec | None) -> list[str]:
    """Return sentences about preprocessing that is assumed, or is not scaling to [-1, 1].

    Args:
        model: the model that is filled.
        spec: preprocessing that the file's config states; None if nothing states it.
    """
    if spec is None:
        return ["assumed, because no config states it: its images are scaled to [-1, 1], as by preprocess_input"]
    if spec.is_plain_scaling:
        return []
    if any(layer.name == "rescaling" for layer in model.layers):
        return [f"its layer 'rescaling' normalises pixels as the config states: {spec}"]
    return [f"its images are not scaled to [-1, 1] as by preprocess_input; model.preprocessing says how: {spec}"]


def note_images(model, source: str) -> None:
    """Print the preprocessing of a `.keras` file's model, unless it is scaling to [-1, 1]."""
    if len(model.inputs) == 1:
        for sentence in images_note(model, preprocessing_of(model)):
            print(f"{source}: {sentence}", file=sys.stderr)


def notes_on(model, contents: Contents, fields: dict, given=()) -> list[str]:
    """Return sentences about differences between a model and its file, and about assumed fields.

    Args:
        model: the model to fill.
        contents: the file's contents.
        fields: the result of `stated`.
        given: names of the fields that the caller chose.
    """
    layout = contents.layout
    if layout.name == "keras":
        return []
    architecture = architecture_of_model(model)
    notes, assumed = [], {}
    for name, usual in origin(layout, architecture.family, architecture.units is not None).items():
        mine = getattr(architecture, name)
        if name in fields and mine != fields[name]:
            notes.append(f"the model has {name}={mine!r}, the config beside the file states {fields[name]!r}")
        elif name in fields or name in given:
            continue
        elif mine != usual:
            notes.append(f"the model has {name}={mine!r}, files of this layout come from {usual!r}")
        elif name in layout.varying:
            assumed[name] = mine
    if architecture.family == "vit":
        assumed |= {
            name: getattr(architecture, name)
            for name in _not_shown(architecture, contents)
            if name not in {*fields, *given}
        }
    if assumed:
        values = ", ".join(f"{name}={value!r}" for name, value in sorted(assumed.items()))
        notes.append(f"assumed, because neither the file nor a config beside it states them: {values}")
    return notes


def _not_shown(architecture, contents: Contents) -> list[str]:
    """Return further fields that the shapes of a file do not show."""
    names = []
    if architecture.depth and not any(entry.heads for entry in contents.entries.values()):
        names.append("num_heads")
    if (
        contents.layout.name == "timm"
        and architecture.classes
        and architecture.class_token
        and architecture.pooling == "token"
    ):
        names.append("pooling")
    return names
