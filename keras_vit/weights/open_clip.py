"""Read OpenCLIP's `open_clip_config.json` as a config of timm. The names of arrays are in `spellings`."""

OPEN_CLIP_CONFIG = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_RESIZE = {"shortest": "center", "squash": "squash", "longest": "border"}
_POOLING = {"tok": "token", "avg": "avg", "token": "token", "map": "map"}


def as_timm_config(config: dict) -> dict:
    """Return the keys of a timm config for the image tower of an OpenCLIP config.

    Raises:
        ValueError: the config has another form, or its tower has a part that this package does not support.
    """
    model, images = config.get("model_cfg", config), config.get("preprocess_cfg", {})
    tower = model.get("vision_cfg") if isinstance(model, dict) else None
    if not isinstance(tower, dict) or not isinstance(images, dict):
        raise ValueError(f"{OPEN_CLIP_CONFIG} expected an object 'vision_cfg', received none.")
    pretrained = {key: images[key] for key in ("mean", "std", "interpolation") if images.get(key) is not None}
    if pretrained:
        pretrained |= {"crop_pct": 1.0, "crop_mode": _RESIZE.get(images.get("resize_mode"), "center")}
    if "timm_model_name" in tower:
        kind = tower.get("timm_pool")
        pooling = {"global_pool": _POOLING[kind]} if kind in _POOLING else {}
        return {"architecture": tower["timm_model_name"], **pooling, "pretrained_cfg": pretrained}
    for key in ("attentional_pool", "global_average_pool", "no_ln_pre"):
        if tower.get(key):
            raise ValueError(f"{OPEN_CLIP_CONFIG} expected {key!r} to be False, received {tower[key]!r}.")
    arguments = {
        "act_layer": "quick_gelu" if model.get("quick_gelu") else "gelu",
        "num_heads": tower["width"] // tower.get("head_width", 64) if isinstance(tower.get("width"), int) else None,
        "img_size": tower.get("image_size"),
        "global_pool": _POOLING.get(tower.get("pool_type", "tok")),
    }
    stated = {key: value for key, value in arguments.items() if value is not None}
    return {"model_args": stated, "keras_vit": {"layer_norm_epsilon": 1e-5}, "pretrained_cfg": pretrained}
