"""Choose the architecture and the arguments by which timm builds a model."""

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
    }
    together = [name for name, has in parts.items() if has]
    if len(together) > 1:
        raise ValueError(
            f"layout 'timm' expected at most one of {', '.join(parts)}, received {' and '.join(together)}."
        )
    if parts["distillation_token"]:
        return "deit_base_distilled_patch16_224"
    if parts["gated_mlp"]:
        return "aimv2_large_patch14_224" if options.get("norm") == "rms" else "vit_giant_patch14_dinov2"
    if parts["pre_norm"]:
        return "vit_base_patch16_clip_224"
    inner = options.get("attention_inner_norm") or options.get("mlp_inner_norm")
    return "beit3_base_patch16_224" if inner and not small else "vit_base_patch16_224"


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
    if model.pooling == "map" and model.prefix_tokens:
        arguments["pool_include_prefix"] = options.get("pool_prefix", True)
    return arguments


def ratio(hidden: int, width: int) -> float:
    """Return the ratio of a hidden layer's width to the model's, from which timm computes int(width * ratio)."""
    ratio = hidden / width
    while int(width * ratio) < hidden:
        ratio = math.nextafter(ratio, math.inf)
    return ratio
