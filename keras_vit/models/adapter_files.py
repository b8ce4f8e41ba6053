"""Write and read the trained variables of parameter-efficient fine-tuning: a small file for a large model.

LoRA has the names and shapes of peft, the other kinds have the paths of the variables.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from keras_vit.composed import Classifier, flattened
from keras_vit.models.adapt import HEAD, adapt_model, adapted_kinds, adapted_variables, rebuilt
from keras_vit.models.adapt_settings import RANKS, Adapt
from keras_vit.models.lora_files import fill_lora, lora_arrays, lora_config
from keras_vit.private import layers_of
from keras_vit.weights.adapter_names import CLASSIFIER, PREFIX
from keras_vit.weights.files import open_weights

CONFIG, IN_FOLDER = "adapter_config.json", "adapter_model.safetensors"  # peft's names
_SIZES = {"vpt": "count", "adapter": "adapter_dim"}  # attribute of a layer with the rank


def save_adapter(
    model: keras.Model,
    path: str | os.PathLike,
    kind: str | None = None,
    base: str | None = None,
    transformers: int = 5,
) -> None:
    """Write the trained variables of an adapted model, with its classifier.

    peft loads a folder of LoRA onto transformers' ViT. `load_adapter` needs the `.safetensors` file only.

    Args:
        model: an adapted model of this package.
        path: a folder, which gets peft's `adapter_model.safetensors` and `adapter_config.json`; or a file
            `NAME.safetensors`, which gets an `adapter_config.json` next to it.
        kind: kind of `keras_vit.train.recipe.Adapt`. The default is read from the model's layers. `bitfit` and `probe`
            add no layers.
        base: name of the base model, for the config.
        transformers: major version of transformers, 4 or 5, which differ in the names of their layers. `load_adapter`
            reads both.

    Raises:
        ValueError: the model is not adapted, its adapters differ in rank, or the path has another suffix.
    """
    model, path = _flat(model), Path(path)
    file = path / IN_FOLDER if path.is_dir() or not path.suffix else path
    if file.suffix != ".safetensors":
        raise ValueError(f"path expected a folder or a file that ends in .safetensors, received {str(path)!r}.")
    if transformers not in (4, 5):
        raise ValueError(f"transformers expected the major version 4 or 5, received {transformers!r}.")
    kind = _kind_of(model) if kind is None else kind
    if kind not in RANKS:
        raise ValueError(f"kind expected one of {', '.join(RANKS)}, received {kind!r}.")
    if kind == "lora":
        arrays = lora_arrays(model, transformers)
        config = lora_config(model, arrays, base)
    else:
        arrays = {variable.path: np.asarray(variable, "float32") for variable in adapted_variables(model, kind)}
        sizes = {getattr(layer, _SIZES[kind], 0) for layer in layers_of(model)} if kind in _SIZES else {None}
        config = {"kind": kind, "rank": max(sizes), "base_model_name_or_path": base}
    labels = [layer.labels for layer in model.layers if layer.name == "head" and getattr(layer, "labels", None)]
    metadata = {
        "format": "pt",
        "adapter_config": json.dumps(config),
        "labels": json.dumps(labels[0] if labels else None),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(config, indent=2) + "\n"
    _write(file, lambda partial: save_file(arrays, partial, metadata))
    _write(file.with_name(CONFIG), lambda partial: partial.write_text(text, encoding="utf-8"))


def load_adapter(model: keras.Model, path: str | os.PathLike) -> keras.Model:
    """Return a copy of a model with an adapter of `save_adapter`, or with LoRA adapters of peft.

    The copy has the adapter's classifier, if the file has one. `keras_vit.merge_adapters` merges LoRA and SSF.

    Args:
        model: the base model, with the weights that the adapter was trained on.
        path: a file or a folder of `save_adapter`, or of peft for transformers' or timm's ViT.

    Raises:
        FileNotFoundError: the file or its config does not exist.
        ValueError: the adapter does not fit the model, or uses an option of peft that is not supported.
    """
    model, path = _flat(model), Path(path)
    file = path / IN_FOLDER if path.is_dir() else path
    with open_weights(file) as opened:
        arrays = {name: np.asarray(opened[name], "float32") for name in opened.shapes}
    config, labels = _described(file)
    kind = config.get("kind") or str(config.get("peft_type")).lower()
    if kind not in RANKS:
        raise ValueError(f"path expected an adapter of save_adapter or LoRA of peft, received {kind!r}.")
    arrays = {_our_name(name): array for name, array in arrays.items()}
    head = {name: arrays.pop(name) for name in list(arrays) if name.split("/")[0] in HEAD}
    if "head/weight" in head:
        head["head/kernel"] = head.pop("head/weight").T
    copy = _with_classifier(model, head, labels)
    if kind == "lora":
        fill_lora(copy, arrays, config)
    else:
        without = tuple(layer.name for layer in model.layers if not _has(arrays, layer.name))
        copy = adapt_model(copy, Adapt(kind, rank=config.get("rank")), without if arrays else ())
    _assign(copy, {**head, **({} if kind == "lora" else arrays)})
    return copy


def _write(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, then rename it."""
    partial = file.with_name(f".partial-{os.getpid()}-{file.name}")
    try:
        write(partial)
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _kind_of(model) -> str:
    """Return the kind of the adapters in a model; raise a ValueError if there are none, or of several kinds."""
    kinds = adapted_kinds(model)
    if len(kinds) != 1:
        raise ValueError(f"model expected the layers of one kind of adapter, or kind='bitfit' or 'probe', received "
                         f"{model.name!r} with {' and '.join(kinds) or 'none'}.")  # fmt: skip
    return kinds[0]


def _flat(model) -> keras.Model:
    """Return the flat model; raise a ValueError if its classifier is a user's dense layer."""
    flat = flattened(model)
    if any(isinstance(layer, Classifier) for layer in flat.layers):
        raise ValueError(f"model expected a ViT of this package with its own classifier or without one, received "
                         f"{model.name!r} with a dense layer at the end: pass the ViT inside.")  # fmt: skip
    return flat


def _described(file: Path) -> tuple[dict, list | None]:
    """Return the config of an adapter and the labels of its classifier, from the file or the config next to it."""
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, "np") as opened:
            metadata = opened.metadata() or {}
        if "adapter_config" in metadata:
            return json.loads(metadata["adapter_config"]), json.loads(metadata.get("labels", "null"))
    beside = file.with_name(CONFIG)
    if not beside.is_file():
        raise FileNotFoundError(f"path expected {CONFIG} next to {file.name}, found none in {str(file.parent)!r}.")
    return json.loads(beside.read_text(encoding="utf-8")), None


def _our_name(name: str) -> str:
    """Return an array's name without peft's prefix, with our name of the classifier."""
    name = name.removeprefix(PREFIX)
    return f"head/{name.removeprefix(f'{CLASSIFIER}.')}" if name.startswith(f"{CLASSIFIER}.") else name


def _has(arrays: dict, layer: str) -> bool:
    """Return whether a file has arrays of an encoder block, or of its prompts."""
    names = (f"{layer}/", f"{layer.replace('encoder_block', 'prompts')}/")
    return any(name.startswith(names) for name in arrays)


def _with_classifier(model, head: dict, labels) -> keras.Model:
    """Return a copy of the model whose classifier has the units and labels of the file."""
    layers = {layer.name: layer for layer in model.layers}
    if head and "head" not in layers:
        raise ValueError(
            f"model expected a classifier, which the adapter replaces, received {model.name!r} without one."
        )
    units = head["head/kernel"].shape[1] if head else None

    def change(layer, config):
        if layer.name != "head" or units is None:
            return config
        kept = layer.labels if units == layer.units else None
        return {**config, "units": units, "labels": labels or kept, "thresholds": None}

    return rebuilt(model, change)


def _assign(model, arrays: dict) -> None:
    """Assign the arrays of a file to the variables of the same paths."""
    variables = {variable.path: variable for variable in model.variables}
    for name, array in arrays.items():
        if name not in variables or tuple(variables[name].shape) != array.shape:
            known = tuple(variables[name].shape) if name in variables else "no such variable"
            raise ValueError(f"adapter expected arrays of {model.name!r} ({name}: {known}), received {array.shape}.")
        variables[name].assign(array)
