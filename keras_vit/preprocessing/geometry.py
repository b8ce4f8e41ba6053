"""Resize, crop and pad one image to a model's size, as an `ImageSpec` states.

`resized_sides` and `crop_offset` compute with Python's ints here and with tensors in `graph.py`.

H W C image, h w model size.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.preprocessing.resize import resize_as_pillow, resize_image

if TYPE_CHECKING:
    from keras_vit.preprocessing.image_spec import ImageSpec


def prepare_image(image: np.ndarray, spec: "ImageSpec", size: tuple[int, int]) -> np.ndarray:
    """Resize an image uint8 (H, W, C) to `size`, crop and pad it. Return float32 (h, w, C) in 0..255."""
    resized = resized_sides(*image.shape[:2], spec, size)
    if resized == image.shape[:2]:
        image = image.astype("float32")
    elif spec.antialias or spec.interpolation == "nearest":
        image = resize_as_pillow(image, resized, spec.interpolation)
    else:
        image = resize_image(image, resized, spec.interpolation, antialias=False)
    for axis, side in enumerate(size):
        start, stop = crop_range(image.shape[axis], side, spec)
        image = image[start:stop] if axis == 0 else image[:, start:stop]
    if image.shape[:2] == tuple(size):
        return image
    padded = np.empty((*size, image.shape[2]), "float32")
    padded[:] = fill_color(spec, image.shape[2])
    missing = [side - found for side, found in zip(size, image.shape[:2], strict=True)]
    top, left = (0 if spec.resize_mode == "corner" else count // 2 for count in missing)
    padded[top : top + image.shape[0], left : left + image.shape[1]] = image
    return padded


def resized_sides(height, width, spec: "ImageSpec", size: tuple[int, int], low=min, high=max, rounded=round) -> tuple:
    """Return the sides of the resized image, before the crop.

    Args:
        height: height of the image in pixels, an int or a tensor of floats.
        width: width of the image, likewise.
        spec: the preprocessing.
        size: (height, width) of the model's input.
        low: the minimum of two numbers.
        high: the maximum of two numbers.
        rounded: the nearest integer of a number, half to even.
    """
    target = [side_before_crop(side, spec) for side in size]
    if spec.resize_mode == "squash":
        return tuple(target)
    if spec.resize_mode == "center" and target[0] == target[1]:  # as torchvision, which rounds the longer side down
        shorter = low(height, width)
        return target[0] * height // shorter, target[0] * width // shorter
    ratios = height / target[0], width / target[1]
    ratio = low(*ratios) if spec.resize_mode == "center" else high(*ratios)
    if spec.resize_mode == "corner":  # halves are rounded up
        return rounded((2 * height / ratio + 1) // 2), rounded((2 * width / ratio + 1) // 2)
    return rounded(height / ratio), rounded(width / ratio)


def side_before_crop(side: int, spec: "ImageSpec") -> int:
    """Return the length of a side before the crop, for a side of the model's input."""
    return math.floor(side / spec.crop_fraction + 1e-6)


def crop_range(found: int, side: int, spec: "ImageSpec") -> tuple[int, int]:
    """Return start and stop of the center crop along an axis; the whole axis if it is shorter than the model's."""
    if found <= side:
        return 0, found
    start = crop_offset(found - side, spec)
    return start, start + side


def crop_offset(excess, spec: "ImageSpec"):
    """Return the offset of the center crop for a number of excess pixels, an int or a tensor."""
    half = excess // 2
    return half if spec.crop_offset == "floor" else half + excess % 2 * (half % 2)  # half to even


def fill_color(spec: "ImageSpec", channels: int) -> list[int]:
    """Return the pixel values that `border` and `corner` pad with: by default the mean, as in timm."""
    if spec.fill is not None:
        return [round(255 * value) for value in spec.per_channel(spec.fill, channels)]
    mean = [round(255 * value) for value in spec.per_channel(spec.mean, channels)]
    return mean if spec.channel_order == "RGB" else mean[::-1]
