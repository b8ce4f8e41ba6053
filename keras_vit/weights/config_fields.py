"""Read what a file's config states about its model.

Shapes do not show the number of heads, the activation, the epsilon or the pooling. A config states them, or names an
architecture of timm that implies them.
"""

from keras_vit.weights.configs import read_config
from keras_vit.weights.contents import Contents
from keras_vit.weights.efficientnets import stated_architecture
from keras_vit.weights.naflex import naflex_resize
from keras_vit.weights.timm_architectures import find_timm_architecture, stated_options
from keras_vit.weights.timm_models import DINOV3_ROPE, pooling_heads_of_timm, rope_of_timm, states_rope, timm_image_size
from keras_vit.weights.transformers_models import (
    HUB_MODELS,
    TOWERS,
    find_hub_model,
    hub_config,
    hub_options,
    hub_pooling,
)
from keras_vit.weights.windows import sam_conventions, windows_of_timm


def config_fields(file, contents: Contents) -> dict:
    """Return what a file's config states, as fields of `Architecture`.

    Args:
        file: one of `keras_vit.weights.files`.
        contents: the file's contents.

    Raises:
        ValueError: the config states a value that this package does not support.
    """
    if fields := getattr(file, "fields", None):  # of keras-hub's files
        return dict(fields)
    layout = contents.layout.name
    config = hub_config(file.config) if layout == "hf" else file.config
    fields = read_config(config, layout, contents.source)
    if layout == "hf":
        _require_same_model(file.config, contents)
        if "gated_mlp" in contents.options and str(config.get("model_type")).startswith("dinov2"):
            fields["activation"] = "silu"  # whatever its `hidden_act`
        fields["options"] = hub_options(file.config)
        if getattr(find_hub_model(file.config), "model_type", None) == "siglip2_vision_model":
            fields["position_resize"] = "siglip2"
        fields |= hub_pooling(file.config, contents)
    if contents.family == "efficientnet":
        return fields | stated_architecture(config, contents.source)
    if layout != "timm" or contents.family != "vit":
        return fields
    if "pooling/probe" in contents.entries and contents.prefix_tokens:
        eva = rope_of_timm(config) or contents.options.get("qkv_bias") == "qv"  # timm's class that pools all tokens
        fields["pool_prefix"] = stated_options(config).get("pool_prefix", bool(eva))
    if isinstance(arguments := config.get("model_args"), dict) and arguments.get("swiglu_mlp"):
        fields["activation"] = "silu"
    stated = {
        "rope": rope_of_timm(config) or (DINOV3_ROPE if contents.periods else None),
        "pooling_heads": pooling_heads_of_timm(config),
    }
    stated["block"] = stated_options(config).get("block")
    fields["options"] = {name: value for name, value in stated.items() if value}
    fields["options"] |= windows_of_timm(config, contents.depth)
    if contents.options.get("gated_mlp") and contents.options.get("qkv_bias") == "qv" and not states_rope(config):
        raise ValueError(
            f"the config of {contents.source!r} expected an 'architecture' of timm, because no array shows whether a "
            f"model like EVA-02 has rotary positions, received {config.get('architecture')!r}."
        )
    if contents.periods:  # Meta's own file of DINOv3
        width = contents.entries["embedding/kernel"].shape[-1] if "embedding/kernel" in contents.entries else 0
        activation = "silu" if contents.options.get("gated_mlp") else "gelu"
        fields |= {"layer_norm_epsilon": 1e-5, "num_heads": width // (4 * contents.periods), "activation": activation}
    # NaFlexVit's positions are stored for another size than that of its images.
    in_sequence = "position_embedding/embedding" in contents.entries and not contents.grid
    if not in_sequence and (size := timm_image_size(config)):
        fields.setdefault("image_size", size)
    if method := naflex_resize(config):
        fields["position_resize"] = method
    implied = find_timm_architecture(config)
    return {**(sam_conventions(contents) if implied is None else implied.fields), **fields}


def _require_same_model(config: dict, contents: Contents) -> None:
    """Raise a ValueError if a transformers config states a model that computes something else."""
    model = find_hub_model(config)
    if model is None and config.get("model_type") is not None:
        raise ValueError(
            f"the config of {contents.source!r} expected 'model_type' to be one of {(*HUB_MODELS, *TOWERS)}, "
            f"received {config['model_type']!r}."
        )
    for key, value in model.fixed.items() if model else ():
        if hub_config(config).get(key, value) != value:
            raise ValueError(
                f"the config of {contents.source!r} expected {key!r} to be {value!r}, received {config[key]!r}."
            )
    pooler = config.get("pooler_act", "tanh")
    if "pre_logits/kernel" in contents.entries and pooler != "tanh":
        raise ValueError(
            f"the config of {contents.source!r} expected 'pooler_act' to be 'tanh', the only one that is supported, "
            f"received {pooler!r}."
        )
