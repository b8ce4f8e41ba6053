"""Files of timm's NaFlexVit, whose patches are embedded by a dense layer and whose positions are stored as a grid.

On images without padding, the model computes what a Vision Transformer computes with positions of the patches alone.
"""

import re

from keras_vit.weights.timm_arguments import ratio
from keras_vit.weights.transforms import LINEAR_PATCHES

_DEFAULTS = {
    "pos_embed": "learned",
    "pos_embed_interp_mode": "bicubic",
    "pos_embed_antialias": True,
    "pos_embed_align_corners": False,
    "pos_embed_ar_preserving": False,
}
_RADIO = {"pos_embed_interp_mode": "bilinear", "pos_embed_antialias": False, "pos_embed_ar_preserving": True}
# Pattern of timm's architectures -> arguments that are no defaults; the first match counts.
_STATED = (
    (r"naflexvit_\w+_siglip$", {"pos_embed_interp_mode": "bilinear"}),
    (r"naflexvit_(base|huge)_patch16_radio_v3$", {**_RADIO, "pos_embed_align_corners": True}),
    (r"naflexvit_\w+_radio_v\d$", _RADIO),
    (r"naflexvit_\w+_par_gap$", {"pos_embed_ar_preserving": True}),
    (r"naflexvit_\w+_parfac_gap$", {"pos_embed_ar_preserving": True, "pos_embed": "factorized"}),
    (r"naflexvit_", {}),
)
# (mode, antialias, corners) -> method of `resize.py`
_METHODS = {
    ("bicubic", True, False): "timm",
    ("bicubic", False, False): "hf",
    ("bilinear", True, False): "siglip2",
    ("bilinear", False, False): "timm_npz",
    ("bilinear", False, True): "official",
}


def is_naflex(config: dict) -> bool:
    """Return whether a config of timm names an architecture of its class `NaFlexVit`."""
    return re.match("naflexvit_", str(config.get("architecture"))) is not None


def naflex_resize(config: dict) -> str | None:
    """Return the method by which timm's `NaFlexVit` resizes positions, by its config; None for other architectures.

    Raises:
        ValueError: the config states a method that this package does not have.
    """
    name, stated = str(config.get("architecture")), config.get("model_args")
    implied = next((values for pattern, values in _STATED if re.match(pattern, name)), None)
    if implied is None:
        return None
    stated = stated if isinstance(stated, dict) else {}
    arguments = {**_DEFAULTS, **implied, **{key: value for key, value in stated.items() if key in _DEFAULTS}}
    suffix = "_square" if arguments["pos_embed_ar_preserving"] else ""
    if arguments["pos_embed"] == "factorized":
        return f"timm_npz{suffix}"
    chosen = tuple(arguments[f"pos_embed_{name}"] for name in ("interp_mode", "antialias", "align_corners"))
    if chosen not in _METHODS or f"{_METHODS[chosen]}{suffix}" == "hf_square":
        raise ValueError(
            f"the config expected (pos_embed_interp_mode, pos_embed_antialias, pos_embed_align_corners) among "
            f"{tuple(_METHODS)}, received {chosen}."
        )
    return _METHODS[chosen] + suffix


def naflex_model(model, arguments: dict) -> tuple[str, dict]:
    """Return an architecture of timm and the arguments by which it becomes a model with factorized positions.

    Args:
        model: the `Architecture`.
        arguments: arguments of timm's `VisionTransformer`.

    Raises:
        ValueError: timm has no such model.
    """
    options = model.options
    usual = {"gated_mlp": False, "dense_bias": True, "norm": "layer", "rope": None, "relative_bias": None}
    usual |= {"patch_norm": False, "distillation_token": 0, "qkv_bias": "qkv"}
    usual |= {"mlp_inner_norm": False, "attention_inner_norm": False, "pool_prefix": False}
    others = [name for name, value in usual.items() if options.get(name, value) != value]
    if model.pooling != "map" or not model.prefix_tokens:
        others = [name for name in others if name != "pool_prefix"]
    if others or model.layer_norm_epsilon != 1e-6:
        raise ValueError(
            "layout 'timm' expected a model with factorized positions, an epsilon of 1e-6 and no other parts, "
            f"received {model.layer_norm_epsilon} and {', '.join(others) or 'no other parts'}."
        )
    names = ("patch_size", "in_chans", "embed_dim", "depth", "num_heads", "act_layer", "global_pool", "class_token")
    written = {name: arguments[name] for name in names} | {
        "mlp_ratio": ratio(model.mlp_dim, model.width),
        "reg_tokens": options.get("registers") or 0,
        "init_values": options.get("layer_scale"),
        "pre_norm": options.get("pre_norm", False),
        "final_norm": options.get("final_norm", True),
        "fc_norm": model.norm_after_pooling,
        "pos_embed": "factorized",
        "pos_embed_grid_size": list(model.grid),
    }
    return "naflexvit_base_patch16_gap", written


def naflex_names(arrays: dict) -> dict:
    """Return the arrays of a file, as `weights.write` has them, by the names of timm's `NaFlexVit`."""
    renamed = {}
    for name, (read, transform, *others) in arrays.items():
        if name == "patch_embed.proj.weight":
            transform = LINEAR_PATCHES
        name = re.sub(r"^(patch_embed\.|(?=cls_token|reg_token))", "embeds.", name)
        renamed[name] = (read, transform, *others)
    return renamed
