"""Read preprocessing from the configs of timm, transformers and keras-hub, and write timm's and transformers'."""

import json
import math
from pathlib import Path

from keras_vit.preprocessing.geometry import side_before_crop
from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec, preprocessing_of

_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_CONVERTERS = ("image_converter.json",)  # of keras-hub
_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's codes
_TIMM_KEYS = ("mean", "std", "interpolation", "crop_pct", "crop_mode")
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # timm's default


METAS_SAM = ImageSpec(resize_mode="corner", **_IMAGENET)  # whose files have no config


def read_spec(file, layout: str) -> ImageSpec | None:
    """Return the preprocessing that a file's config or the catalogue states; None if nothing states it.

    Args:
        file: one of `keras_vit.weights.files`.
        layout: layout of the file. The official code scales to [-1, 1] and has no configs.

    Raises:
        ValueError: a config has an invalid value.
    """
    if hasattr(file, "model"):  # a `.keras` file, whose model states it
        return preprocessing_of(file.model)
    if layout == "applications":
        return file.spec
    if converter := _read_json(Path(file.source), _CONVERTERS):
        return _checked(_from_keras_hub, converter, file.source)
    if layout == "timm":
        return _checked(_from_timm, file.config, file.source) or file.catalogue_spec
    if layout == "hf":
        config = _read_json(Path(file.source), _PROCESSORS)
        config = config.get("image_processor", config)
        return _checked(_from_hf, config if isinstance(config, dict) else {}, file.source) or file.catalogue_spec
    return None if getattr(file, "preset", False) else PLAIN_SCALING  # keras-hub's files state it in the converter


def _checked(read, config: dict, source: str) -> ImageSpec | None:
    try:
        return read(config)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"the config of {source!r} expected values of preprocessing, received {error}.") from None


def _from_timm(config: dict) -> ImageSpec | None:
    pretrained = config.get("pretrained_cfg", config)  # configs before 2023 have the keys at the top
    if not any(key in pretrained for key in _TIMM_KEYS):
        return None
    size = pretrained.get("input_size")
    return ImageSpec(
        size=size and size[1:],
        resize_mode=pretrained.get("crop_mode") or "center",
        interpolation=pretrained.get("interpolation") or "bicubic",
        crop_fraction=pretrained.get("crop_pct") or 0.875,
        mean=pretrained.get("mean") or _IMAGENET["mean"],
        std=pretrained.get("std") or _IMAGENET["std"],
    )


def timm_config(spec: ImageSpec, channels: int, size: tuple[int, int]) -> dict:
    """Return the keys of timm's `pretrained_cfg` for a model of an input size.

    Raises:
        ValueError: timm has no such preprocessing.
    """
    if spec.channel_order != "RGB":
        raise ValueError(f"layout 'timm' expected channel order 'RGB', received {spec.channel_order!r}.")
    if spec.fill not in (None, spec.mean) and spec.resize_mode in ("border", "corner"):
        raise ValueError(f"layout 'timm' expected images padded with the mean {spec.mean}, received {spec.fill}.")
    crop, side = spec.crop_fraction, min(size)
    resized = side_before_crop(side, spec)
    while math.floor(side / crop) < resized:  # timm rounds the quotient down
        crop = math.nextafter(crop, 0)
    return {
        "input_size": [channels, *size],
        "mean": spec.per_channel(spec.mean, channels),
        "std": spec.per_channel(spec.std, channels),
        "interpolation": spec.interpolation,
        "crop_pct": crop,
        "crop_mode": "border" if spec.resize_mode == "corner" else spec.resize_mode,
    }


def _read_json(path: Path, names: tuple[str, ...]) -> dict:
    """Return the config of the first of `names` in a file's folder; empty without one."""
    for name in names:
        file = path.with_name(name)
        if not file.is_file():
            continue
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict):
            raise ValueError(f"source expected a JSON object in {str(file)!r}, received other text.")
        return config
    return {}


def _from_keras_hub(config: dict) -> ImageSpec:
    """Read an `ImageConverter`, which computes `pixels * scale + offset`. It crops before it resizes."""
    config = config.get("config", config)
    if config.get("pad_to_aspect_ratio"):
        raise ValueError("pad_to_aspect_ratio=True, which pads with black")
    scale, offset = (
        _values(default if config.get(key) is None else config[key]) for key, default in (("scale", 1), ("offset", 0))
    )
    channels = max(len(scale), len(offset))
    std = [1 / (255 * value) for value in scale * (channels // len(scale))]
    return ImageSpec(
        size=config.get("image_size"),
        resize_mode="center" if config.get("crop_to_aspect_ratio", True) else "squash",
        interpolation=config.get("interpolation", "bilinear"),
        antialias=bool(config.get("antialias", False)),
        mean=[-value * s for value, s in zip(offset * (channels // len(offset)), std, strict=True)],
        std=std,
    )


def _from_hf(config: dict) -> ImageSpec | None:
    if "image_mean" not in config and config.get("do_normalize") is not False:
        return None
    normalizes = config.get("do_normalize", True)
    unit = 255 * config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 255
    mean, std = (_values(config[key]) if normalizes else (default,) for key, default in _HF_NORMAL.items())
    mode, resized, size = _hf_sizes(config)
    return ImageSpec(
        size=size,
        resize_mode=mode,
        interpolation=_RESAMPLING[config.get("resample", 2)],
        crop_fraction=min(size) / resized if size and resized else 1.0,
        mean=[value / unit for value in mean],
        std=[value / unit for value in std],
        channel_order="BGR" if config.get("do_flip_channel_order") else "RGB",
        crop_offset="floor",
    )


_HF_NORMAL = {"image_mean": 0.0, "image_std": 1.0}


def _values(value) -> tuple[float, ...]:
    return (value,) if isinstance(value, int | float) else tuple(value)


def _hf_sizes(config: dict) -> tuple[str, int | None, tuple[int, int] | None]:
    """Return the resize mode, the resized image's shorter side, and the input's (height, width)."""
    resize, crop = config.get("size"), config.get("crop_size")
    kind = str(config.get("image_processor_type") or config.get("feature_extractor_type"))
    if isinstance(resize, int):  # of old feature extractors; CLIP's means the shorter side
        resize = {"shortest_edge": resize} if kind.startswith(("CLIP", "Bit")) else {"height": resize, "width": resize}
    resize = resize or {}
    crop = {"height": crop, "width": crop} if isinstance(crop, int) else crop
    resized = (resize["height"], resize["width"]) if "height" in resize else None
    cropped = (crop["height"], crop["width"]) if crop and config.get("do_center_crop") else None
    longest, padded = resize.get("longest_edge"), config.get("pad_size") or {}
    if longest and config.get("do_pad", True) and {longest} == set(padded.values()):  # SAM
        return "corner", None, (longest, longest)
    shortest = resize.get("shortest_edge")
    if shortest and cropped and cropped[0] != cropped[1]:
        raise ValueError(f"a crop of {cropped}, which is not square, of images resized by their shorter side")
    if shortest:
        return "center", shortest, cropped
    return "squash", resized and min(resized), cropped or resized


def processor_config(spec: ImageSpec, channels: int, size: tuple[int, int]) -> dict:
    """Return transformers' `preprocessor_config.json` for a model of an input size.

    Raises:
        ValueError: transformers has no such preprocessing.
    """
    if spec.resize_mode in ("border", "corner") or spec.channel_order != "RGB":
        raise ValueError(
            "layout 'hf' expected preprocessing by 'squash' or 'center' in channel order 'RGB', "
            f"received {spec.resize_mode!r} and {spec.channel_order!r}."
        )
    height, width = (side_before_crop(side, spec) for side in size)
    crops = spec.resize_mode == "center" or spec.crop_fraction != 1
    kind = {"center": "BitImageProcessor", "squash": "DeiTImageProcessor" if crops else "ViTImageProcessor"}
    shorter = {"shortest_edge": min(height, width)}
    config = {
        "image_processor_type": kind[spec.resize_mode],
        "do_resize": True,
        "size": shorter if spec.resize_mode == "center" else {"height": height, "width": width},
        "resample": {name: code for code, name in _RESAMPLING.items()}[spec.interpolation],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": spec.per_channel(spec.mean, channels),
        "image_std": spec.per_channel(spec.std, channels),
    }
    if not crops:
        return config
    return config | {"do_center_crop": True, "crop_size": {"height": size[0], "width": size[1]}}
