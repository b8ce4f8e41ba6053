"""Read and write the arguments of timm's classes `VisionTransformer` and `Eva`.

The arguments state options of a row that no array shows.
"""

import re

from keras_vit.weights.naflex import naflex_model
from keras_vit.weights.timm_arguments import ratio, timm_arguments, timm_base
from keras_vit.weights.windows import is_sam, sam_model

DINOV3_ROPE = {"temperature": 100.0, "coordinates": "centers", "pairs": "halves"}
_PERCEPTION = {"order": "xy", "offset": 1.0}
# Pattern of timm's architectures with rotary positions -> fields of the row's `Rope`.
_ROPES = (
    (r"_(dinov3|lingbot|sapiens2)", DINOV3_ROPE),
    (r"^eva02_(tiny|small|base|large)_|_rope_reg\d_", {"reference_grid": (16, 16)}),
    (r"_rope_mixed_", {"temperature": 10.0, "learned": True, "order": "xy"}),
    (r"_rope_", {"temperature": 100.0, "order": "xy"}),
    (r"^vit_pe_core_base_", {**_PERCEPTION, "reference_grid": (14, 14)}),
    (r"^vit_pe_core_(tiny|small|large)_", {**_PERCEPTION, "reference_grid": (24, 24)}),
    (r"^vit_pe_\w+_gigantic_", {"order": "xy", "reference_grid": (32, 32)}),
    (r"^vit_pe_", {**_PERCEPTION, "reference_grid": (32, 32)}),
)
_DEFAULTS = {"temperature": 10_000.0, "learned": False, "coordinates": "cells", "reference_grid": None, "offset": 0.0}
_DEFAULTS |= {"order": "yx", "pairs": "neighbours"}


def rope_of_timm(config: dict) -> dict | None:
    """Return the fields of `Rope` that a config of timm states or that its architecture implies; None without one."""
    name, arguments = config.get("architecture"), config.get("model_args")
    arguments = arguments if isinstance(arguments, dict) else {}
    known = (values for pattern, values in _ROPES if re.search(pattern, name))
    implied = next(known, None) if isinstance(name, str) else None
    if not arguments.get("use_rot_pos_emb", implied is not None):
        return None
    rope = {**_DEFAULTS, **(implied or {})}
    if kind := arguments.get("rope_type"):
        rope |= {"learned": kind == "mixed", "coordinates": "centers" if kind == "dinov3" else "cells"}
    for argument, field, read in (
        ("rope_temperature", "temperature", float),
        ("rope_grid_offset", "offset", float),
        ("rope_grid_indexing", "order", {"ij": "yx", "xy": "xy"}.__getitem__),
        ("rope_rotate_half", "pairs", lambda half: "halves" if half else "neighbours"),
        (
            "ref_feat_shape",
            "reference_grid",
            lambda side: (side, side) if isinstance(side, int) else side and tuple(side),
        ),
    ):
        if argument in arguments:
            try:
                rope[field] = read(arguments[argument])
            except (KeyError, TypeError, ValueError):
                raise ValueError(
                    f"the config expected a known 'model_args.{argument}', received {arguments[argument]!r}."
                ) from None
    return rope


def pooling_heads_of_timm(config: dict) -> int:
    """Return the number of heads of attention pooling if a config of timm or its architecture states one, else 0."""
    name, arguments = config.get("architecture"), config.get("model_args")
    heads = arguments.get("attn_pool_num_heads") if isinstance(arguments, dict) else None
    implied = 8 if isinstance(name, str) and name.startswith("vit_pe_core_") else 0
    return heads if isinstance(heads, int) and heads > 0 else implied


def states_rope(config: dict) -> bool:
    """Return whether a config of timm states if its model has rotary positions."""
    arguments = config.get("model_args")
    return isinstance(arguments, dict) and "use_rot_pos_emb" in arguments or rope_of_timm(config) is not None


def timm_image_size(config: dict) -> tuple[int, int] | None:
    """Return the (height, width) of the images in a config of timm; None if it states none."""
    pretrained = config.get("pretrained_cfg", config)
    size = pretrained.get("input_size") if isinstance(pretrained, dict) else None
    valid = (
        isinstance(size, list | tuple) and len(size) == 3 and all(isinstance(side, int) and side > 0 for side in size)
    )
    return tuple(size[1:]) if valid else None


def timm_model(model, arguments: dict) -> tuple[str, dict]:
    """Return an architecture of timm and the arguments by which it becomes the model.

    Args:
        model: the `Architecture`.
        arguments: arguments of `VisionTransformer` that do not depend on the options of a row.

    Raises:
        ValueError: timm has no such model.
    """
    options = model.options
    if is_sam(model):
        return sam_model(model, arguments | ({"init_values": scale} if (scale := options.get("layer_scale")) else {}))
    if bool(options.get("pre_norm")) == options.get("patch_bias", True):
        raise ValueError(
            "layout 'timm' expected a patch embedding with a bias, or without one and with pre_norm, received "
            f"patch_bias={options['patch_bias']} and pre_norm={options['pre_norm']}."
        )
    stated = {
        "init_values": options.get("layer_scale"),
        "reg_tokens": options.get("registers"),
        "pre_norm": options.get("pre_norm"),
        "no_embed_class": not options.get("prefix_positions", True),
    }
    arguments |= {name: value for name, value in stated.items() if value}
    qkv_bias = options.get("qkv_bias", "qkv")
    if not is_eva(model) and (options.get("pooling_heads") or options.get("pooling_mlp_dim")):
        raise ValueError("layout 'timm' expected attention pooling with the sizes of the blocks, or rotary positions, "
                         "received pooling_heads or pooling_mlp_dim of its own.")  # fmt: skip
    if stem := options.get("conv_stem"):
        sizes = (model.width, model.patch_size, stem["widths"], stem["sizes"])
        if sizes != (768, (2, 2), (192, 192), (4, 2)) or is_eva(model):
            raise ValueError("layout 'timm' expected a model with convolutions in front of its patches and width 768, "
                             f"patches of 2 x 2, widths (192, 192) and sizes (4, 2), received {sizes}.")  # fmt: skip
        del arguments["patch_size"]
        return "vit_base_mci_224", arguments | timm_arguments(model)
    if model.positions == "factorized":
        return naflex_model(model, arguments)
    if options.get("differential_attention") and (options.get("relative_bias") or is_eva(model)):
        raise ValueError(
            "layout 'timm' expected differential_attention=False without a bias of the key, received True."
        )
    if options.get("relative_bias"):
        return _relative(model, arguments, qkv_bias)
    if is_eva(model):
        return _eva(model, arguments, options.get("rope"), qkv_bias)
    arguments |= {} if qkv_bias == "qkv" else {"qkv_bias": False}
    return timm_base(model) if model.units is None else "", arguments | timm_arguments(model)


def is_eva(model) -> bool:
    """Return whether an `Architecture` is a model of timm's class `Eva`."""
    return not model.options.get("relative_bias") and (
        bool(model.options.get("rope")) or model.options.get("qkv_bias") == "qv"
    )


def is_beit(model) -> bool:
    """Return whether an `Architecture` is a model of timm's class `Beit`, which spells LayerScale as `Eva` does."""
    return (
        model.options.get("relative_bias") == "table" and model.class_token and model.options.get("qkv_bias") != "qkv"
    )


def _relative(model, arguments, qkv_bias):
    """Return an architecture of timm's class `Beit` or `VisionTransformerRelPos`."""
    beit, options = is_beit(model), model.options
    received = {
        "activation": (model.activation, "gelu"),
        "layer_norm_epsilon": (model.layer_norm_epsilon, 1e-6),
        "positions": (model.positions, "none"),
        "rope": (options.get("rope"), None),
        "registers": (options.get("registers", 0), 0),
        "pre_norm": (options.get("pre_norm", False), False),
        "gated_mlp": (options.get("gated_mlp", False), False),
        "mlp_inner_norm": (options.get("mlp_inner_norm", False), False),
        "qkv_bias": (qkv_bias != "qv" or beit, True),
        "block": (options.get("block", "pre_norm") in ("pre_norm", *["post_norm"] * (not beit)), True),
        "qk_norm": (options.get("qk_norm", False), False),
        "heads_per_key": (options.get("heads_per_key", 1), 1),
        "attention_out_bias": (options.get("attention_out_bias", True), True),
    }
    for name, (value, expected) in received.items():
        if value != expected:
            raise ValueError(f"layout 'timm' expected {name}={expected!r} with relative_bias, received {value!r}.")
    shared = ("img_size", "patch_size", "in_chans", "embed_dim", "depth", "num_heads", "global_pool")
    arguments = {name: arguments[name] for name in shared} | {
        "mlp_ratio": ratio(model.mlp_dim, model.width),
        "qkv_bias": qkv_bias != "none",
        "init_values": options.get("layer_scale"),
    }
    if beit:
        fields = {"use_abs_pos_emb": False, "use_rel_pos_bias": True, "use_fc_norm": model.norm_after_pooling}
        return "beit_base_patch16_224", arguments | fields
    shared = options["relative_bias"] == "shared_mlp"
    kind = {"table": "bias", "mlp": "mlp", "shared_mlp": "mlp"}[options["relative_bias"]]
    fields = {"rel_pos_type": kind, "class_token": model.class_token, "fc_norm": model.norm_after_pooling}
    fields |= {"rel_pos_dim": options.get("relative_bias_dim", 128)} if kind == "mlp" else {}
    if options.get("block") == "post_norm":
        if shared:
            raise ValueError(
                "layout 'timm' expected relative_bias='mlp' with block='post_norm', received 'shared_mlp'."
            )
        return "vit_relpos_medium_patch16_rpn_224", arguments | fields
    return "vit_srelpos_small_patch16_224" if shared else "vit_relpos_small_patch16_224", arguments | fields


_RENAMED = {"reg_tokens": "num_reg_tokens", "pre_norm": "use_pre_transformer_norm", "fc_norm": "use_fc_norm"}


def _eva(model, arguments, rope, qkv_bias):
    """Return an architecture of timm's class `Eva`, which has no argument for the activation and the epsilon."""
    options, gated = model.options, model.options.get("gated_mlp", False)
    activation = "silu" if gated else "gelu"
    rms = options.get("norm") == "rms"
    if model.activation != activation or model.layer_norm_epsilon not in ((1e-6,) if rms else (1e-5, 1e-6)):
        raise ValueError(
            f"layout 'timm' expected activation={activation!r} and a layer_norm_epsilon of 1e-5 or 1e-6 for a model "
            f"with rotary positions or without a bias of the key, received {model.activation!r} and "
            f"{model.layer_norm_epsilon}."
        )
    block, groups = options.get("block", "pre_norm"), options.get("heads_per_key", 1)
    parts = {"dense_bias": True, "distillation_token": 0, "patch_norm": False, "attention_out_bias": True}
    parts |= {"block": block if block != "parallel" else "pre_norm"}
    if others := [name for name, usual in parts.items() if options.get(name, usual) != usual]:
        raise ValueError(
            "layout 'timm' expected a model with rotary positions or without a bias of the key and no other parts, "
            f"received one with {', '.join(others)}."
        )
    arguments = {_RENAMED.get(name, name): value for name, value in arguments.items() if name != "act_layer"}
    arguments |= {
        "qkv_bias": qkv_bias != "none",
        "qkv_fused": True,
        "attn_type": "rope" if qkv_bias == "qkv" else "eva",  # the second has no bias of the key
        "qk_norm": options.get("qk_norm", False),
        "attn_only_layer_scale": block == "attention_scale",
        "use_post_norm": block == "post_norm",
        "num_kv_heads": None,
        "use_abs_pos_emb": model.positions == "learned",
        "use_rot_pos_emb": rope is not None,
        "dynamic_img_size": False,
        "init_values": arguments.get("init_values"),
        "num_reg_tokens": arguments.get("num_reg_tokens", 0),
        "mlp_ratio": ratio(model.mlp_dim, model.width),
        "swiglu_mlp": gated,
        "scale_mlp": options.get("mlp_inner_norm", False),
        "scale_attn_inner": options.get("attention_inner_norm", False),
    }
    if model.pooling == "map":
        arguments["attn_pool_num_heads"] = options.get("pooling_heads") or model.num_heads
        arguments["attn_pool_mlp_ratio"] = ratio(options.get("pooling_mlp_dim") or model.mlp_dim, model.width)
        if model.prefix_tokens and not options.get("pool_prefix", True):
            raise ValueError("layout 'timm' expected attention pooling of all tokens with rotary positions, received "
                             "pool_prefix=False.")  # fmt: skip
    if not options.get("final_norm", True):
        arguments["use_post_transformer_norm"] = False
    arguments |= _rope_arguments(rope) if rope else {}
    if groups > 1:
        full, heads = options.get("full_attention_blocks", 0), model.num_heads
        middle = range(full, model.depth - full)
        arguments["num_kv_heads"] = [heads // groups if i in middle else heads for i in range(model.depth)]
        arguments["qkv_fused"] = False
    if rms:
        return "vit_base_patch16_sapiens2", arguments
    small = "vit_small_patch16_dinov3" if model.layer_norm_epsilon == 1e-5 else "vit_small_patch16_rope_224"
    return small, arguments


def _rope_arguments(rope: dict) -> dict:
    """Return timm's arguments for rotary positions."""
    rope = {**_DEFAULTS, **rope}
    reference = rope["reference_grid"]
    return {
        "rope_type": "mixed" if rope["learned"] else "dinov3" if rope["coordinates"] == "centers" else "cat",
        "rope_temperature": rope["temperature"],
        "rope_grid_offset": rope["offset"],
        "rope_grid_indexing": "xy" if rope["order"] == "xy" else "ij",
        "rope_rotate_half": rope["pairs"] == "halves",
        "ref_feat_shape": reference and list(reference),
    }


def eva_names(names: dict) -> dict:
    """Return the arrays of a file by the names of timm's `Eva` and `Beit`, which spell LayerScale differently."""
    return {re.sub(r"\.ls([12])\.gamma$", r".gamma_\1", name): value for name, value in names.items()}


def relative_names(names: dict) -> dict:
    """Return the arrays of a file by the names of timm's `VisionTransformerRelPos`."""
    return {name.replace(".attn.relative_position", ".attn.rel_pos.relative_position"): names[name] for name in names}
