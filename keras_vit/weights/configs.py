"""Read and write the `config.json` of timm and transformers by one table of keys."""

from dataclasses import dataclass

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.architecture import Architecture
from keras_vit.weights.efficientnets import timm_efficientnet
from keras_vit.weights.image_configs import timm_config
from keras_vit.weights.timm_models import timm_model
from keras_vit.weights.transformers_write import hub_keys, hub_model_of


@dataclass(frozen=True)
class Key:
    """A field of `Architecture` and its key in each library's config; `a.b` is key b of object a."""

    ours: str
    hf: str | None = None
    timm: str | None = None


KEYS = (
    Key("width", "hidden_size", "model_args.embed_dim"),
    Key("depth", "num_hidden_layers", "model_args.depth"),
    Key("mlp_dim", "intermediate_size"),
    Key("num_heads", "num_attention_heads", "model_args.num_heads"),
    Key("patch_size", "patch_size", "model_args.patch_size"),
    Key("channels", "num_channels", "model_args.in_chans"),
    Key("image_size", "image_size", "model_args.img_size"),
    Key("activation", "hidden_act", "model_args.act_layer"),
    Key("layer_norm_epsilon", "layer_norm_eps", "keras_vit.layer_norm_epsilon"),  # timm has no key for it
    Key("group_norm_epsilon", None, "keras_vit.group_norm_epsilon"),
    Key("weight_epsilon", None, "keras_vit.weight_epsilon"),
    Key("weight_epsilon_on", None, "keras_vit.weight_epsilon_on"),
    Key("pooling", None, "model_args.global_pool"),
    Key("pooling", None, "global_pool"),
    Key("labels", "id2label"),
    Key("labels", None, "label_names"),
)
_ACTIVATIONS = {
    "timm": {name: name for name in ("gelu", "gelu_tanh", "quick_gelu", "relu", "silu")},
    "hf": {name: name for name in ("gelu", "quick_gelu", "relu", "silu")}
    | {"gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh"},
}
# Keys of transformers' BitConfig with the only values that this package supports.
_BIT_FIXED = {
    "layer_type": "preactivation",
    "hidden_act": "relu",
    "global_padding": None,
    "embedding_dynamic_padding": False,
    "num_groups": 32,
    "output_stride": 32,
}
# Keys of timm's `model_args` that no array shows, with the values that this package supports.
_TIMM_FIXED = {
    "norm_layer": ("layernorm", "rmsnorm"),
    "pos_embed": ("learn", "learned", "factorized"),
    "rope_type": ("cat", "mixed", "dinov3"),
    "attn_layer": ("attn", "diff"),
    "block_fn": (),
    "mlp_layer": (),
}
_POOLINGS = {"token": "token", "avg": "gap", "map": "map", "": None}


def read_config(config: dict, layout: str, source: str) -> dict:
    """Return the values of a config as fields of `Architecture`.

    Args:
        config: the config.
        layout: layout of the file, `timm` or `hf`.
        source: name of the file in error messages.

    Raises:
        ValueError: a value has the wrong type, or is not supported.
    """
    for place, fixed in _BIT_FIXED.items() if layout == "hf" and config.get("model_type") == "bit" else ():
        if config.get(place, fixed) != fixed:
            raise ValueError(
                f"the config of {source!r} expected {place!r} to be {fixed!r}, as BiT's is, received {config[place]!r}."
            )
    arguments = _get(config, "model_args") if layout == "timm" else None
    for name, computed in _TIMM_FIXED.items() if isinstance(arguments, dict) else ():
        if arguments.get(name) not in (None, *computed):
            raise ValueError(
                f"the config of {source!r} expected 'model_args.{name}' to be one of {(None, *computed)}, "
                f"received {arguments[name]!r}."
            )
    fields = {}
    for key in KEYS:
        place = getattr(key, layout, None)
        value = place and _get(config, place)
        if value is None:
            continue
        try:
            fields[key.ours] = _READ.get(key.ours, _number)(value, layout)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"the config of {source!r} expected a known {place!r}, received {value!r}.") from None
    return fields


def _get(config, place):
    for part in place.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


def _number(value, layout):
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _pair(value, layout):
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ValueError
    return pair


def _labels(value, layout):
    names = [value[key] for key in sorted(value, key=int)] if isinstance(value, dict) else list(value)
    unnamed = all(name == f"LABEL_{i}" for i, name in enumerate(names))
    return None if unnamed else tuple(str(name) for name in names)


_READ = {
    "patch_size": _pair,
    "image_size": _pair,
    "labels": _labels,
    "activation": lambda value, layout: _ACTIVATIONS[layout][value],
    "pooling": lambda value, layout: _POOLINGS[value],
    "weight_epsilon_on": lambda value, layout: {"std": "std", "variance": "variance"}[value],
}


def write_config(model: Architecture, layout: str, spec: ImageSpec) -> dict:
    """Return the config by which a layout's library builds the model and prepares its images.

    Raises:
        ValueError: the library has no such model.
    """
    return _hf(model) if layout == "hf" else _timm(model, spec)


def _values(model: Architecture, layout: str) -> dict:
    """Return the keys of a layout with the model's values; `a.b` stays one key."""
    names = {}
    for theirs, ours in _ACTIVATIONS[layout].items():
        names.setdefault(ours, theirs)
    if model.activation not in names:
        raise ValueError(
            f"layout {layout!r} expected an activation among {sorted(names)}, received {model.activation!r}."
        )
    side = lambda pair: pair[0] if pair and pair[0] == pair[1] else pair and list(pair)  # noqa: E731
    written = {
        "activation": names[model.activation],
        "patch_size": side(model.patch_size),
        "image_size": side(model.full_size),
        "pooling": {ours: theirs for theirs, ours in _POOLINGS.items()}.get(model.pooling),
        "labels": None,
    }
    keys = [key for key in KEYS if getattr(key, layout)]
    return {getattr(key, layout): written.get(key.ours, getattr(model, key.ours)) for key in keys}


def _hf(model):
    if model.family == "bit":
        return _hf_bit(model)
    row = hub_model_of(model)
    if model.classes and row.model_type == "vit" and (model.representation_size or model.pooling != "token"):
        raise ValueError("layout 'hf' expected a classifier on the class token alone, which is what transformers has.")
    if model.representation_size not in (None, model.width):
        raise ValueError(
            f"layout 'hf' expected a representation layer of the model's width {model.width}, "
            f"received {model.representation_size}."
        )
    config = {key: value for key, value in _values(model, "hf").items() if value is not None}
    config |= {
        "architectures": [row.classifier if model.classes else row.class_name],
        "model_type": row.model_type,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
        **hub_keys(model, row),
    }
    return config | _hf_labels(model)


def _hf_labels(model):
    if not model.classes:
        return {}
    labels = model.labels or [f"LABEL_{i}" for i in range(model.classes)]
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _hf_bit(model):
    width = round(64 * model.width_factor)
    return {
        "architectures": ["BitForImageClassification" if model.classes else "BitModel"],
        "model_type": "bit",
        "num_channels": model.channels,
        "embedding_size": width,
        "hidden_sizes": [4 * width * 2**stage for stage in range(len(model.units))],
        "depths": list(model.units),
        "width_factor": 1,  # included in the sizes above
        **_BIT_FIXED,
        "dtype": "float32",
        **_hf_labels(model),
    }


def _timm(model, spec):
    if model.family != "vit":
        return (_timm_bit if model.family == "bit" else timm_efficientnet)(model, spec)
    values = _values(model, "timm")
    arguments = {key.removeprefix("model_args."): value for key, value in values.items() if "model_args." in key}
    ours = {key.removeprefix("keras_vit."): value for key, value in values.items() if "keras_vit." in key}
    arguments |= {"class_token": model.class_token, "fc_norm": model.norm_after_pooling}
    architecture, arguments = timm_model(model, arguments)
    config = {
        "architecture": architecture if model.units is None else _timm_hybrid(model),
        "num_classes": model.classes or 0,
        "num_features": model.width,
        "global_pool": arguments["global_pool"],
        "model_args": arguments,
        "pretrained_cfg": {**timm_config(spec, model.channels, model.full_size), "num_classes": model.classes or 0},
        "keras_vit": ours,
    }
    if model.labels:
        config["label_names"] = list(model.labels)
    return config


# timm's hybrids state the stages of their ResNet in the name, not in the arguments.
_TIMM_HYBRIDS = {
    (): "vit_tiny_r_s16_p8_224",
    (2, 2, 2, 2): "vit_small_r26_s32_224",
    (3, 4, 9): "vit_base_r50_s16_224",
    (3, 4, 6, 3): "vit_large_r50_s32_224",
}


def _timm_hybrid(model):
    if model.width_factor != 1 or model.units not in _TIMM_HYBRIDS:
        known = ", ".join(map(str, _TIMM_HYBRIDS))
        raise ValueError(f"layout 'timm' expected a stem of width 1 with units among {known}, received {model.units}.")
    return _TIMM_HYBRIDS[model.units]


_TIMM_RESNETS = {"resnetv2_50d_gn", "resnetv2_50d_evos"}
_TIMM_RESNETS |= {f"resnetv2_{depth}{deep}" for depth in (18, 34, 50, 101, 152) for deep in ("", "d")}


def _timm_resnet(model):
    """Return timm's name of a ResNet whose kernels are not standardised."""
    options, bottlenecks = model.options, {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}
    depth = ({(2, 2, 2, 2): 18, (3, 4, 6, 3): 34} if options["basic"] else bottlenecks).get(model.units)
    norm = {"batch": "", "group": "_gn", "evo": "_evos"}[options["norm"]]
    name = f"resnetv2_{depth}{'d' * options['deep_stem']}{norm}"
    if name not in _TIMM_RESNETS or model.width_factor != 1:
        raise ValueError(f"layout 'timm' expected a ResNet among {', '.join(sorted(_TIMM_RESNETS))}, received "
                         f"{model.units} units, {model.width_factor:g} times as wide, and {options}.")  # fmt: skip
    return name


def _timm_bit(model, spec):
    depth = {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}.get(model.units)
    name = f"resnetv2_{depth}x{model.width_factor:g}_bit"
    if not model.options.get("standardized", True):
        name = _timm_resnet(model)
    elif (depth, model.width_factor) not in {(50, 1), (50, 3), (101, 1), (101, 3), (152, 2), (152, 4)}:
        raise ValueError(
            "layout 'timm' expected a BiT among R50x1, R50x3, R101x1, R101x3, R152x2, R152x4, "
            f"received units {model.units}, {model.width_factor:g} times as wide."
        )
    size = model.image_size or spec.size or (224, 224)
    return {
        "architecture": name,
        "num_classes": model.classes or 0,
        "model_args": {"in_chans": model.channels},
        "keras_vit": {"weight_epsilon": model.weight_epsilon},
        "pretrained_cfg": timm_config(spec, model.channels, size),
    }
