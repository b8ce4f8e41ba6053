"""Read and write preprocessing in timm's `pretrained_cfg` and transformers' `preprocessor_config.json`."""

import json
import math
from pathlib import Path

from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of

_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's codes
_TIMM_KEYS = ("mean", "std", "interpolation", "crop_pct", "crop_mode")
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # timm's default


def read_spec(file, layout: str) -> ImageSpec | None:
    """Return the preprocessing that a file's config states; None if nothing states it.

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
    if layout == "timm":
        return _checked(_from_timm, file.config, file.source)
    if layout == "hf":
        return _checked(_from_hf, _read_processor(Path(file.source)), file.source)
    return ImageSpec()


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
    crop, (side, resized) = spec.crop_fraction, _resized(spec, min(size))
    while math.floor(side / crop) < resized:  # timm rounds the quotient down
        crop = math.nextafter(crop, 0)
    return {
        "input_size": [channels, *size],
        "mean": spec.per_channel(spec.mean, channels),
        "std": spec.per_channel(spec.std, channels),
        "interpolation": spec.interpolation,
        "crop_pct": crop,
        "crop_mode": spec.resize_mode,
    }


def _resized(spec: ImageSpec, side: int) -> tuple[int, int]:
    """Return a side of the input, and the same side of the resized image before the center crop."""
    return side, math.floor(side / spec.crop_fraction + 1e-6)


def _read_processor(path: Path) -> dict:
    """Return the config of the image processor in a file's folder; empty without one."""
    for name in _PROCESSORS:
        file = path.with_name(name)
        if not file.is_file():
            continue
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict):
            raise ValueError(f"source expected a JSON object in {str(file)!r}, received other text.")
        config = config.get("image_processor", config)
        return config if isinstance(config, dict) else {}
    return {}


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
    shortest = resize.get("shortest_edge")
    if shortest:
        return "center", shortest, cropped
    return "squash", resized and min(resized), cropped or resized


def processor_config(spec: ImageSpec, channels: int, size: tuple[int, int]) -> dict:
    """Return transformers' `preprocessor_config.json` for a model of an input size.

    Raises:
        ValueError: transformers has no such preprocessing.
    """
    if spec.resize_mode == "border" or spec.channel_order != "RGB":
        raise ValueError(
            "layout 'hf' expected preprocessing by 'squash' or 'center' in channel order 'RGB', "
            f"received {spec.resize_mode!r} and {spec.channel_order!r}."
        )
    height, width = (_resized(spec, side)[1] for side in size)
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
