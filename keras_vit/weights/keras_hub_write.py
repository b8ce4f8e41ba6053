"""Write keras-hub's preset folders, without keras-hub: the inverse of `keras_hub_files`."""

import datetime
import json
import math
import re
import sys
from pathlib import Path

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.architecture import Architecture
from keras_vit.weights.keras_hub_models import BACKBONES, CLASS, POSITIONS, REGISTERS, Backbone
from keras_vit.weights.timm_models import DINOV3_ROPE
from keras_vit.weights.transformers_write import hub_model_of

_MODULES = {"ViT": "vit", "DINOV2": "dinov2", "DINOV3": "dinov3"}
_KINDS = {
    "vit": "ViTBackbone",
    "ijepa": "ViTBackbone",
    "dinov2": "DINOV2Backbone",
    "dinov2_with_registers": "DINOV2Backbone",
    "dinov3_vit": "DINOV3Backbone",
}
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


def write_preset(folder: Path, model: Architecture, values: dict, spec: ImageSpec, write) -> None:
    """Write the preset folder of a ViT.

    Args:
        folder: the folder.
        model: the model.
        values: path of a variable -> function that returns its value.
        spec: preprocessing of the model.
        write: function of a path and of a function that writes a file, which writes atomically.

    Raises:
        ValueError: keras-hub has no such model.
    """
    row = BACKBONES[_KINDS[hub_model_of(model, "keras_hub", tuple(_KINDS)).model_type]]
    config = _object(row.name, _backbone(model, row))
    task = _task(model, config) if model.classes else None
    arrays = {path: np.asarray(read()) for path, read in values.items()}
    if REGISTERS in arrays and POSITIONS in arrays:
        arrays |= _moved_positions(arrays, model)
    folder.mkdir(parents=True, exist_ok=True)
    head = {path: array for path, array in arrays.items() if path.startswith(("head/", "pre_logits/"))}
    body = {path: array for path, array in arrays.items() if path not in head}
    write(folder / "model.weights.h5", lambda partial: _write_hdf5(partial, _theirs(body, model, row)))
    if task:
        write(folder / "task.weights.h5", lambda partial: _write_hdf5(partial, _theirs_of_head(head)))
        write(folder / "task.json", lambda partial: _write_json(partial, task))
    converter = _converter(spec, model, row)
    if converter:
        write(folder / "image_converter.json", lambda partial: _write_json(partial, converter))
    metadata = {
        "keras_version": sys.modules["keras"].__version__,
        "parameter_count": sum(array.size for array in body.values()),
        "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
        "tasks": ["ImageClassifier"] if task else [],
    }
    write(folder / "metadata.json", lambda partial: _write_json(partial, metadata))
    write(folder / "config.json", lambda partial: _write_json(partial, config))


def _object(name: str, config: dict) -> dict:
    """Return an object as Keras serializes it."""
    stem = next(stem for stem in _MODULES if name.startswith(stem))
    rest = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix(stem)).lower()
    module = f"keras_hub.src.models.{_MODULES[stem]}.{_MODULES[stem]}_{rest}"
    return {"module": module, "class_name": name, "config": config, "registered_name": f"keras_hub>{name}"}


def _backbone(model: Architecture, row: Backbone) -> dict:
    """Return the arguments of a backbone.

    Raises:
        ValueError: the backbone has no argument for a value of the model.
    """
    options, gated = model.options, model.options.get("gated_mlp", False)
    vit = row.name == "ViTBackbone"
    activation = "silu" if gated else "gelu"
    expected = {"activation": (model.activation, activation)}
    if row.name == "DINOV2Backbone":
        expected["layer_norm_epsilon"] = (model.layer_norm_epsilon, 1e-6)
    if model.classes:
        expected["pooling"] = (model.pooling, "token" if model.class_token else "gap")
    size = model.full_size
    expected["image_size"] = (size, size if vit or (size and size[0] == size[1]) else "two equal sides")
    for name, (received, wanted) in expected.items():
        if received != wanted or received is None:
            raise ValueError(
                f"layout 'keras_hub' expected {name}={wanted!r} in keras-hub's {row.name}, received {received!r}."
            )
    shape = [*size, model.channels]
    common = {"image_shape": shape, "num_layers": model.depth, "num_heads": model.num_heads, "hidden_dim": model.width}
    if vit:
        return common | {
            "patch_size": list(model.patch_size),
            "mlp_dim": model.mlp_dim,
            "layer_norm_epsilon": model.layer_norm_epsilon,
            "use_class_token": model.class_token,
        }
    common |= {
        "patch_size": model.patch_size[0],
        "layer_scale_init_value": options["layer_scale"],
        "num_register_tokens": options.get("registers", 0),
        "use_mask_token": False,
        "intermediate_dim": model.mlp_dim,
    }
    if row.name == "DINOV2Backbone":
        wide = (dim for dim in range(8 * model.mlp_dim) if math.ceil(int(dim * 2 / 3) / 8) * 8 == model.mlp_dim)
        return common | {
            "use_swiglu_ffn": gated,
            "position_embedding_shape": shape,
            "intermediate_dim": next(wide, model.mlp_dim) if gated else model.mlp_dim,
        }
    biases = options.get("qkv_bias", "qkv")
    return common | {
        "hidden_activation": activation,
        "use_gated_mlp": gated,
        "layer_norm_eps": model.layer_norm_epsilon,
        "rope_theta": (options.get("rope") or DINOV3_ROPE)["temperature"],
        **{f"use_{word}_bias": word[0] in biases for word in ("query", "key", "value")},
    }


def _task(model: Architecture, backbone: dict) -> dict:
    arguments = {
        "backbone": backbone,
        "preprocessor": None,
        "num_classes": model.classes,
        "pooling": model.pooling,
        "activation": None,
        "intermediate_dim": model.representation_size,
    }
    return _object("ViTImageClassifier", arguments)


def _converter(spec: ImageSpec, model: Architecture, row: Backbone) -> dict | None:
    """Return the config of an image converter, or None and a printed note if keras-hub has no such preprocessing."""
    fits = spec.crop_fraction == 1 and spec.resize_mode not in ("border", "corner") and spec.channel_order == "RGB"
    if not fits or spec.interpolation not in _INTERPOLATIONS:
        print(f"layout 'keras_hub': it has no preprocessing like {spec}, so that none is written.", file=sys.stderr)
        return None
    mean, std = (spec.per_channel(values, model.channels) for values in (spec.mean, spec.std))
    return _object(
        row.name.replace("Backbone", "ImageConverter"),
        {
            "image_size": list(spec.size or model.full_size),
            "scale": [1 / (255 * value) for value in std],
            "offset": [-m / s for m, s in zip(mean, std, strict=True)],
            "interpolation": spec.interpolation,
            "antialias": spec.antialias,
            "crop_to_aspect_ratio": spec.resize_mode == "center",
        },
    )


def _moved_positions(arrays: dict, model: Architecture) -> dict:
    """Add the positions of registers to their tokens, because keras-hub's registers have none."""
    positions, registers = arrays[POSITIONS], arrays[REGISTERS].shape[1]
    stored = positions.shape[1] - model.grid[0] * model.grid[1]
    if not stored:
        return {POSITIONS: np.pad(positions, ((0, 0), (1, 0), (0, 0)))}
    kept = np.concatenate([positions[:, :1], positions[:, stored:]], axis=1)
    return {POSITIONS: kept, REGISTERS: arrays[REGISTERS] + positions[:, 1 : 1 + registers]}


def _theirs(arrays: dict, model: Architecture, row: Backbone) -> dict[str, np.ndarray]:
    """Return the arrays of `model.weights.h5` by their paths."""
    gated = model.options.get("gated_mlp") and row.name == "DINOV3Backbone"
    packed = model.options.get("gated_mlp") and not gated
    skipped = ("mlp/weights_in", "mlp/weights_out") if not packed else ("mlp/fc1", "mlp/fc2")
    layers = {ours: theirs for theirs, ours in row.layers.items() if theirs not in skipped}
    tokens = [name for name in row.tokens({"use_mask_token": False, "num_register_tokens": REGISTERS in arrays})]
    found = {f"{row.embedding}:{i}": arrays[name or POSITIONS] for i, name in enumerate(tokens) if CLASS in arrays}
    for path, array in arrays.items():
        block = re.match(r"encoder_block_(\d+)/(.+)", path)
        index = int(block[1]) if block else 0
        start = f"{row.start}{f'_{index}' if index else ''}/" if block else ""
        layer, _, word = (block[2] if block else path).rpartition("/")
        if layer.startswith("attention") and layer != "attention_scale" and layer != "attention_norm":
            theirs = start + layers["attention"]
            found |= _attention(theirs, layer, word, array, model.num_heads, flat=row.name == "DINOV3Backbone")
        elif layer == "mlp/fc1" and gated:
            halves = np.split(array, 2, axis=-1)
            found |= {f"{start}mlp/{name}:{_index(word)}": half for name, half in zip(_GATE, halves, strict=True)}
        elif layer in layers:
            squeezed = array[0] if layer == "position_embedding" else array
            found[f"{start}{layers[layer]}:{_index(word)}"] = squeezed
    return found


_GATE = ("gate_proj", "up_proj")


def _index(word: str) -> int:
    return int(word in ("bias", "beta"))


def _attention(theirs: str, layer: str, word: str, array, heads: int, flat: bool) -> dict[str, np.ndarray]:
    """Return keras-hub's arrays of one of our variables of an attention."""
    width = array.shape[0]
    shape = lambda x: x if flat else x.reshape(*x.shape[:-1], heads, -1)  # noqa: E731
    if layer.endswith("qkv"):
        parts = zip(("query", "key", "value"), np.split(array, 3, axis=-1), strict=True)
        return {f"{theirs}/{name}_dense:{_index(word)}": shape(part) for name, part in parts}
    if word.endswith("_bias"):
        return {f"{theirs}/{word.removesuffix('_bias')}_dense:1": shape(array)}
    output = array if flat or word == "bias" else array.reshape(heads, width // heads, -1)
    return {f"{theirs}/output_dense:{_index(word)}": output}


def _theirs_of_head(arrays: dict) -> dict[str, np.ndarray]:
    layers = ["pre_logits", "head"] if "pre_logits/kernel" in arrays else ["head"]
    names = {layer: f"dense{f'_{i}' if i else ''}" for i, layer in enumerate(layers)}
    found = {f"{names[path.split('/')[0]]}:{_index(path.split('/')[1])}": array for path, array in arrays.items()}
    # keras-hub compiles its tasks, and expects the step and the learning rate of the new optimizer.
    return found | {"optimizer:0": np.array(0, "int64"), "optimizer:1": np.array(0.001, "float32")}


def _write_hdf5(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            layer, _, index = name.rpartition(":")
            start = "" if layer == "optimizer" else "layers/"
            file.create_dataset(f"{start}{layer}/vars/{index}", data=array)


def _write_json(path: Path, config: dict) -> None:
    path.write_text(json.dumps(config, indent=4) + "\n", encoding="utf-8")
