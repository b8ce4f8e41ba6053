"""The models of transformers: one row a model, with its names of arrays and what its config states or implies."""

from dataclasses import dataclass, field

from keras_vit.weights.spellings import AIMV2, BEIT, CLIP, DINOV2, DINOV2_GATED, DINOV3, DINOV3_GATED, SAM, SIGLIP
from keras_vit.weights.timm_models import DINOV3_ROPE
from keras_vit.weights.windows import windows_of_transformers

_HEADS, _GELU, _TANH = {"num_attention_heads": 12}, {"hidden_act": "gelu"}, {"hidden_act": "gelu_pytorch_tanh"}
_VIT = {**_HEADS, **_GELU, "layer_norm_eps": 1e-12}
_SMALL = {**_HEADS, **_GELU, "layer_norm_eps": 1e-6}


@dataclass(frozen=True)
class HubModel:
    """A model of transformers.

    Args:
        model_type: its key in `config.json`.
        class_name: name of the class without a classifier.
        classifier: name of the class with a classifier that computes as ours does; None without one.
        prefix: prefix of the names in files of other classes than `class_name`.
        names: (name in the table, name in files), with `vit.` for the prefix; others are the table's.
        gated_names: `names` of models with gated MLPs; None for `names`.
        defaults: keys that a config may omit, with the library's values.
        keys: keys with another name than in other configs, and that name.
        fixed: keys with the only values that this package supports.
        options: fields of the row that the model implies.
    """

    model_type: str
    class_name: str
    classifier: str | None = None
    prefix: str = ""
    names: tuple[tuple[str, str], ...] = ()
    gated_names: tuple[tuple[str, str], ...] | None = None
    defaults: dict[str, object] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, object] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)


HUB_MODELS = {
    model.model_type: model
    for model in (
        HubModel("vit", "ViTModel", "ViTForImageClassification", "vit.", defaults=_VIT),
        HubModel("vit_mae", "ViTMAEModel", prefix="vit.", defaults=_VIT),
        HubModel("vit_msn", "ViTMSNModel", "ViTMSNForImageClassification", "vit.", defaults=_SMALL),
        HubModel("ijepa", "IJepaModel", "IJepaForImageClassification", "ijepa.", defaults=_VIT),
        HubModel("deit", "DeiTModel", "DeiTForImageClassificationWithTeacher", "deit.", defaults=_VIT),
        HubModel("dpt", "DPTModel", defaults=_VIT),
        HubModel("bit", "BitModel", "BitForImageClassification", "bit."),
        HubModel("vit-hybrid", "ViTHybridModel", defaults=_VIT),
        HubModel("vit_hybrid", "ViTHybridModel", defaults=_VIT),
        HubModel(
            "beit",
            "BeitModel",
            "BeitForImageClassification",
            "beit.",
            BEIT,
            defaults=_VIT | {"use_mean_pooling": True},
        ),
        HubModel(
            "data2vec-vision",
            "Data2VecVisionModel",
            "Data2VecVisionForImageClassification",
            "data2vec_vision.",
            BEIT,
            defaults=_VIT | {"use_mean_pooling": True},
        ),
        HubModel("dinov2", "Dinov2Model", None, "dinov2.", DINOV2, DINOV2_GATED, defaults=_SMALL),
        HubModel(
            "dinov2_with_registers",
            "Dinov2WithRegistersModel",
            None,
            "dinov2_with_registers.",
            DINOV2,
            DINOV2_GATED,
            defaults=_SMALL,
        ),
        HubModel(
            "dinov3_vit",
            "DINOv3ViTModel",
            None,
            "",
            DINOV3,
            DINOV3_GATED,
            defaults={"num_attention_heads": 6, **_GELU, "layer_norm_eps": 1e-5, "rope_theta": 100.0},
        ),
        HubModel(
            "clip_vision_model",
            "CLIPVisionModel",
            None,
            "vision_model.",
            CLIP,
            defaults={**_HEADS, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5},
        ),
        HubModel(
            "siglip_vision_model",
            "SiglipVisionModel",
            None,
            "vision_model.",
            SIGLIP,
            defaults={**_HEADS, **_TANH, "layer_norm_eps": 1e-6},
        ),
        HubModel(
            "siglip2_vision_model",
            "Siglip2VisionModel",
            None,
            "vision_model.",
            SIGLIP,
            defaults={**_HEADS, **_TANH, "layer_norm_eps": 1e-6},
        ),
        HubModel(
            "aimv2_vision_model",
            "Aimv2VisionModel",
            None,
            "vision_model.",
            AIMV2,
            defaults={"num_attention_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-5},
            keys={"rms_norm_eps": "layer_norm_eps"},
            fixed={"is_native": False},
            options={"norm": "rms", "dense_bias": False},
        ),
        HubModel(
            "sam_vision_model",
            "SamVisionModel",
            None,
            "vision_encoder.",
            SAM,
            defaults={
                **_SMALL,
                "num_hidden_layers": 12,
                "window_size": 14,
                "global_attn_indexes": (2, 5, 8, 11),
            },
            keys={"mlp_dim": "intermediate_size"},
        ),
    )
}
# Models of several parts -> the model of their `vision_config`, if the latter does not state it.
TOWERS = {
    "clip": "clip_vision_model",
    "siglip": "siglip_vision_model",
    "siglip2": "siglip2_vision_model",
    "aimv2": "aimv2_vision_model",
    "paligemma": "siglip_vision_model",
    "sam": "sam_vision_model",
}
_SIGLIP = ("siglip_vision_model", "siglip2_vision_model")


def find_hub_model(config: dict) -> HubModel | None:
    """Return the row of a config's model or of its image tower; None if this package supports none."""
    tower, outer = config.get("vision_config"), config.get("model_type")
    if not isinstance(tower, dict):
        return HUB_MODELS.get(outer) if isinstance(outer, str) else None
    inner = tower.get("model_type", TOWERS.get(outer) if isinstance(outer, str) else None)
    return HUB_MODELS.get(inner) if isinstance(inner, str) else None


def hub_config(config: dict) -> dict:
    """Return a config of transformers with the keys of its image tower, the library's defaults and the usual keys."""
    model, tower = find_hub_model(config), config.get("vision_config")
    if model is None:
        return config
    stated = {**config, **tower} if isinstance(tower, dict) else config
    whole = {**model.defaults, **{key: value for key, value in stated.items() if value is not None}}
    return whole | {usual: whole[key] for key, usual in model.keys.items() if key in whole}


def hub_options(config: dict) -> dict[str, object]:
    """Return fields of the row that a config of transformers states or implies and no array shows, by name."""
    model = find_hub_model(config)
    if model is None:
        return {}
    options = dict(model.options)
    if model.model_type == "dinov3_vit":
        options["rope"] = DINOV3_ROPE | {"temperature": float(hub_config(config)["rope_theta"])}
    if model.model_type == "sam_vision_model":
        options |= windows_of_transformers(hub_config(config))
    return options


def hub_pooling(config: dict, contents) -> dict[str, str | None]:
    """Return the pooling of a transformers model as a field of `Architecture`; empty if the arrays show it."""
    model = find_hub_model(config)
    has_classifier = "head/kernel" in contents.entries
    if model is None or "pooling/probe" in contents.entries:
        return {}
    if model.model_type in (*_SIGLIP, "aimv2_vision_model", "sam_vision_model") and not has_classifier:
        return {"pooling": None}  # the sequence of tokens, or SAM's map
    if model.model_type in ("beit", "data2vec-vision") and not hub_config(config)["use_mean_pooling"]:
        return {"pooling": "token"}
    return {}
