"""Choose the architecture and the arguments by which timm's class `VisionTransformer` builds a model."""

import math


def timm_base(model) -> str:
    """Return the architecture whose parts timm has no arguments for: epsilon, gated MLP, distillation token.

    Args:
        model: `keras_vit.weights.architecture.Architecture` of a model without a stem.

    Raises:
        ValueError: timm has no architecture with all parts of the model.
    """
    options, small = model.options, model.layer_norm_epsilon == 1e-6
    parts = {
        "gated_mlp": options.get("gated_mlp"),
        "distillation_token": options.get("distillation_token"),
        "pre_norm": options.get("pre_norm"),
        "post_norm": options.get("block") == "post_norm",
        "parallel": options.get("block") == "parallel",
        "attention_scale": options.get("block") == "attention_scale",
        "differential_attention": options.get("differential_attention") and options.get("block") != "parallel",
        "heads_per_key": options.get("heads_per_key", 1) > 1,
    }
    together = [name for name, has in parts.items() if has]
    if len(together) > 1:
        raise ValueError(
            f"layout 'timm' expected at most one of {', '.join(parts)}, received {' and '.join(together)}."
        )
    if parts["attention_scale"] or parts["heads_per_key"]:
        raise ValueError(f"layout 'timm' expected rotary positions with {together[0]}, received none.")
    if parts["differential_attention"]:
        return "vit_dwee_patch16_reg1_gap_256"
    if parts["post_norm"]:
        return "vit_base_patch16_rpn_224"
    if parts["parallel"]:
        return _parallel_base(options)
    if parts["distillation_token"]:
        return "deit_base_distilled_patch16_224"
    if parts["gated_mlp"]:
        return "aimv2_large_patch14_224" if options.get("norm") == "rms" else "vit_giant_patch14_dinov2"
    if parts["pre_norm"]:
        return "vit_base_patch16_clip_224"
    inner = options.get("attention_inner_norm") or options.get("mlp_inner_norm")
    return "beit3_base_patch16_224" if inner and not small else "vit_base_patch16_224"


def _parallel_base(options: dict) -> str:
    """Return the architecture of timm with parallel blocks. Differential ones have one bias for both branches."""
    differential, two_biases = options.get("differential_attention", False), options.get("attention_out_bias", True)
    if differential == two_biases or options.get("qkv_bias", "qkv") != "qkv":
        raise ValueError(
            "layout 'timm' expected parallel blocks with qkv_bias='qkv' and an attention_out_bias that is the opposite "
            f"of differential_attention, received qkv_bias={options.get('qkv_bias')!r}, attention_out_bias="
            f"{two_biases} and differential_attention={differential}."
        )
    return "vit_dpwee_patch16_reg1_gap_256" if differential else "vit_pwee_patch16_reg1_gap_256"


def timm_arguments(model) -> dict:
    """Return timm's arguments for the MLPs, the norms and the biases of a model without a stem."""
    options, base = model.options, timm_base(model) if model.units is None else ""
    gated, apart = options.get("gated_mlp", False), base.startswith("aimv2")
    arguments = {"mlp_ratio": ratio(model.mlp_dim * (1 + (gated and not apart)), model.width)}
    if options.get("norm") == "rms" and not apart:
        arguments["norm_layer"] = "rmsnorm"
    if options.get("patch_norm") and not apart:
        arguments["embed_norm_layer"] = "rmsnorm" if options.get("norm") == "rms" else "layernorm"
    if apart:
        arguments["qkv_bias"] = options.get("qkv_bias", "qkv") == "qkv"
        arguments |= {} if options.get("patch_norm") else {"embed_norm_layer": None}
    if gated:
        arguments |= {"init_values": options.get("layer_scale")}
    if apart or not options.get("dense_bias", True):
        arguments["proj_bias"] = options.get("dense_bias", True)
    if base.startswith("beit3") or options.get("attention_inner_norm") or options.get("mlp_inner_norm"):
        arguments["scale_attn_norm"] = options.get("attention_inner_norm", False)
        arguments["scale_mlp_norm"] = options.get("mlp_inner_norm", False)
    if not options.get("final_norm", True):
        arguments["final_norm"] = False
    if base.endswith(("wee_patch16_reg1_gap_256", "_rpn_224")):  # whose own arguments differ from the class's
        arguments |= {name: options.get(field) or 0 for name, field in (("reg_tokens", "registers"),)}
        arguments |= {"init_values": options.get("layer_scale")}
        arguments |= {"no_embed_class": not options.get("prefix_positions", True)}
        arguments |= {"qkv_bias": options.get("qkv_bias", "qkv") == "qkv"}
    if options.get("qk_norm"):
        arguments["qk_norm"] = True
    if options.get("block") != "parallel" and not options.get("attention_out_bias", True):
        raise ValueError("layout 'timm' expected attention_out_bias=True without parallel blocks, received False.")
    if model.pooling == "map" and model.prefix_tokens:
        arguments["pool_include_prefix"] = options.get("pool_prefix", True)
    return arguments


def ratio(hidden: int, width: int) -> float:
    """Return the ratio of a hidden layer's width to the model's, from which timm computes int(width * ratio)."""
    ratio = hidden / width
    while int(width * ratio) < hidden:
        ratio = math.nextafter(ratio, math.inf)
    return ratio
