"""Choose the class of transformers that computes as a ViT of this package, and write its config and names."""

import math
from functools import partial

import numpy as np

from keras_vit.weights.architecture import Architecture
from keras_vit.weights.spellings import in_file
from keras_vit.weights.timm_models import DINOV3_ROPE
from keras_vit.weights.transformers_models import HUB_MODELS, HubModel
from keras_vit.weights.transforms import SAME


def _any(value) -> bool:
    return True


def _dinov3_rope(value) -> bool:
    given = {**DINOV3_ROPE, "learned": False, "order": "yx", "reference_grid": None, "offset": 0.0}
    return bool(value) and all(
        value.get(name, usual) == usual for name, usual in given.items() if name != "temperature"
    )


# Fields of a plain ViT. A model of transformers states its own values, or a function that tells them.
_PLAIN = {
    "class_token": True,
    "pooling": ("token", None),
    "positions": "learned",
    "norm_after_pooling": False,
    "layer_scale": None,
    "registers": 0,
    "prefix_positions": _any,
    "pre_norm": False,
    "patch_bias": True,
    "gated_mlp": False,
    "mlp_inner_norm": False,
    "attention_inner_norm": False,
    "dense_bias": True,
    "norm": "layer",
    "patch_norm": False,
    "final_norm": True,
    "distillation_token": 0,
    "qkv_bias": "qkv",
    "rope": None,
    "relative_bias": None,
    "pooling_heads": 0,
    "pooling_mlp_dim": 0,
    "mlp_kernel_size": 0,
}
_NO_CLASSES = {"classes": None, "representation_size": None}
_DINOV2 = {**_NO_CLASSES, "layer_scale": bool, "gated_mlp": _any}
_TOWER = {**_NO_CLASSES, "class_token": False}
_HOLDS = {
    "vit": {"pooling": ("token", "gap", None)},
    "ijepa": {"class_token": False, "pooling": ("gap", None), "representation_size": None},
    "deit": {"distillation_token": 1, "classes": bool, "representation_size": None},
    "beit": {
        "positions": "none",
        "relative_bias": "table",
        "layer_scale": bool,
        "qkv_bias": "qv",
        "pooling": ("token", "gap"),
        "norm_after_pooling": _any,
        "representation_size": None,
    },
    "dinov2": _DINOV2,
    "dinov2_with_registers": {**_DINOV2, "registers": bool},
    "dinov3_vit": {**_DINOV2, "registers": _any, "positions": "none", "rope": _dinov3_rope, "qkv_bias": _any},
    "clip_vision_model": {**_NO_CLASSES, "pre_norm": True, "patch_bias": False},
    "siglip_vision_model": {**_TOWER, "pooling": "map"},
    "aimv2_vision_model": {
        **_TOWER,
        "pooling": None,
        "norm": "rms",
        "patch_norm": True,
        "gated_mlp": True,
        "dense_bias": False,
        "qkv_bias": "none",
    },
}


def hub_model_of(model: Architecture, layout: str = "hf", kinds: tuple[str, ...] = tuple(_HOLDS)) -> HubModel:
    """Return the row of the class of transformers that computes as a ViT.

    Args:
        model: the ViT.
        layout: name of the layout in error messages.
        kinds: the values of `model_type` to choose from.

    Raises:
        ValueError: transformers has no such model; the message names the differences from the most similar one.
    """
    if model.units is not None:
        raise ValueError(f"layout {layout!r} expected a ViT without a stem, which is what the library has.")
    differences = {name: _differences(model, _PLAIN | _HOLDS[name]) for name in kinds}
    nearest = min(differences, key=lambda name: len(differences[name]))
    row = HUB_MODELS[nearest]
    if differences[nearest]:
        raise ValueError(
            f"layout {layout!r} expected a model like those of transformers, of which "
            f"{row.classifier or row.class_name} is the most similar, received one with "
            f"{', '.join(differences[nearest])}; timm's layout has more kinds."
        )
    return row


def _differences(model: Architecture, expected: dict) -> list[str]:
    found = []
    for name, wanted in expected.items():
        value = getattr(model, name) if hasattr(model, name) else model.options.get(name, _PLAIN[name])
        value = 0 if name == "prefix_positions" else value
        fits = wanted(value) if callable(wanted) else value in wanted if isinstance(wanted, tuple) else value == wanted
        if not fits:
            found.append(f"{name}={value!r}")
    return found


def hub_keys(model: Architecture, row: HubModel) -> dict:
    """Return the keys of a config that only this model of transformers has.

    Raises:
        ValueError: the library cannot state a size of the model.
    """
    options, kind = model.options, row.model_type
    if kind in ("vit", "deit"):
        return {"qkv_bias": True, "pooler_output_size": model.width, "pooler_act": "tanh"} if kind == "vit" else {}
    gated, scale = options.get("gated_mlp", False), options.get("layer_scale")
    biases = options.get("qkv_bias", "qkv")
    return {
        "ijepa": {"qkv_bias": True},
        "beit": {
            "use_relative_position_bias": True,
            "use_mean_pooling": model.norm_after_pooling,
            "layer_scale_init_value": scale,
            "drop_path_rate": 0.0,
        },
        "dinov2": {"use_swiglu_ffn": gated, "layerscale_value": scale, "use_mask_token": False},
        "dinov2_with_registers": {
            "use_swiglu_ffn": gated,
            "layerscale_value": scale,
            "num_register_tokens": options.get("registers", 0),
        },
        "dinov3_vit": {
            "use_gated_mlp": gated,
            "layerscale_value": scale,
            "num_register_tokens": options.get("registers", 0),
            "rope_theta": (options.get("rope") or DINOV3_ROPE)["temperature"],
            **{f"{word}_bias": word[0] in biases for word in ("query", "key", "value")},
        },
        "clip_vision_model": {},
        "siglip_vision_model": {"vision_use_head": True},
        "aimv2_vision_model": {"use_head": False, "rms_norm_eps": model.layer_norm_epsilon},
    }[kind] | ({"mlp_ratio": _mlp_ratio(model, gated)} if kind.startswith("dinov2") else {})


def _mlp_ratio(model: Architecture, gated: bool) -> int:
    """Return the whole number from which transformers' DINOv2 computes the width between the MLP's dense layers."""
    width = lambda ratio: math.ceil(int(model.width * ratio * 2 / 3) / 8) * 8 if gated else model.width * ratio  # noqa: E731
    found = next((ratio for ratio in range(1, 65) if width(ratio) == model.mlp_dim), None)
    if found is None:
        raise ValueError(
            f"layout 'hf' expected an mlp_dim that follows from a whole mlp_ratio, as in transformers' DINOv2, "
            f"received {model.mlp_dim} for width {model.width}."
        )
    return found


def hub_arrays(arrays: dict, model: Architecture) -> dict:
    """Return the arrays of a file by the names of their class of transformers, with the arrays that only it has.

    Args:
        arrays: name in the table -> (reader, transform, part, heads).
        model: the model.
    """
    row = hub_model_of(model)
    if row.model_type == "dinov2_with_registers":
        arrays = _without_register_positions(arrays, model.options["registers"])
    names = row.gated_names if model.options.get("gated_mlp") and row.gated_names else row.names
    prefix = row.prefix if model.classes else ""
    spelt = {}
    for name, entry in arrays.items():
        new = in_file(name, names).replace(".mlp.value_proj.", ".mlp.up_proj.")
        if new.endswith((".class_embedding", ".position_embedding.weight")):  # (D,) and (N, D)
            entry = (partial(_flat, entry[0], (-1,) if "class" in new else (-1, model.width)), *entry[1:])
        spelt[prefix + new.removeprefix("vit.") if new.startswith("vit.") else new] = entry
    shapes = {}
    if row.model_type in ("dinov2_with_registers", "dinov3_vit"):
        shapes["mask_token"] = (1, model.width) if row.model_type != "dinov3_vit" else (1, 1, model.width)
    if row.model_type == "dinov3_vit" and not model.options.get("registers"):
        shapes["register_tokens"] = (1, 0, model.width)
    zeros = {f"embeddings.{name}": (partial(np.zeros, shape, "float32"), SAME, 0, 1) for name, shape in shapes.items()}
    return spelt | zeros


def _flat(read, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(read()).reshape(shape)


def _without_register_positions(arrays: dict, registers: int) -> dict:
    """Add the positions of registers to their tokens, because transformers' registers have none."""
    position, token = "vit.embeddings.position_embeddings", "vit.embeddings.register_tokens"
    (positions, *rest), (tokens, *others) = arrays[position], arrays[token]

    def kept():
        array = np.asarray(positions())
        return np.concatenate([array[:, :1], array[:, 1 + registers :]], axis=1)

    def moved():
        return np.asarray(tokens()) + np.asarray(positions())[:, 1 : 1 + registers]

    return arrays | {position: (kept, *rest), token: (moved, *others)}
