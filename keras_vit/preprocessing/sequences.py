"""Cut images into padded sequences of patches, at their own aspect ratio.

B batch, N patches with padding, P patch height or width, H W C image.
"""

import math
import os
from collections.abc import Sequence

import numpy as np

from keras_vit.checks import is_whole
from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec
from keras_vit.preprocessing.inputs import load_image
from keras_vit.preprocessing.resize import resize_as_pillow, resize_image

_STEP = 1e-5  # at which the search for the scale ends, as in timm and transformers


def patch_sequences(
    images: Sequence[np.ndarray | str | os.PathLike | bytes],
    patch_size: int | tuple[int, int] = 16,
    max_patches: int = 256,
    preprocessing: ImageSpec = PLAIN_SCALING,
    channels: int = 3,
) -> dict[str, np.ndarray]:
    """Resize images to at most `max_patches` patches each, keep their aspect ratios, and cut them into patches.

    An image is scaled so that it fills the sequence as far as possible. Its sides are rounded up to whole patches.
    Grids and pixels are those of transformers' `Siglip2ImageProcessor`, and of timm's `ResizeToSequence`.

    Args:
        images: pixels uint8 (H, W, C) in 0..255, or paths or bytes of image files. Sizes may differ.
        patch_size: pixels of a patch, one int or (height, width).
        max_patches: N, the length of each sequence.
        preprocessing: the model's, as `model.preprocessing`; its interpolation, mean and standard deviation are used.
        channels: C.

    Returns:
        `patches` (B, N, P * P * C) float32, `coordinates` (B, N, 2) int32, the row and column of each patch, and
        `valid` (B, N) bool, which is False for padding. All other values of padding are zeros.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: an argument is out of range, or an image is no such array or file.
    """
    size = (patch_size, patch_size) if isinstance(patch_size, int) else tuple(patch_size)
    if len(size) != 2 or not all(is_whole(side) for side in size):
        raise ValueError(f"patch_size expected a positive int or (height, width), received {patch_size!r}.")
    if not is_whole(max_patches):
        raise ValueError(f"max_patches expected a positive int, received {max_patches!r}.")
    if isinstance(images, str | bytes | os.PathLike) or not len(images):
        raise ValueError(f"images expected a list of at least one image, received {images!r:.40}.")
    length = size[0] * size[1] * channels
    patches = np.zeros((len(images), max_patches, length), "float32")
    coordinates = np.zeros((len(images), max_patches, 2), "int32")
    valid = np.zeros((len(images), max_patches), bool)
    for i, image in enumerate(images):
        grid, cut = _cut(_pixels(image, channels, i), size, max_patches, preprocessing)
        patches[i, : len(cut)] = cut
        coordinates[i, : len(cut)] = np.stack(np.indices(grid), axis=-1).reshape(-1, 2)
        valid[i, : len(cut)] = True
    return {"patches": patches, "coordinates": coordinates, "valid": valid}


def _pixels(image, channels: int, index: int) -> np.ndarray:
    """Return the pixels uint8 (H, W, C) of an image."""
    if not isinstance(image, np.ndarray):
        return load_image(image, (None, None, channels)).astype("uint8")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != channels or 0 in image.shape:
        raise ValueError(
            f"images[{index}] expected uint8 (height, width, {channels}), received {image.dtype} {image.shape}."
        )
    return image


def fitted_grid(height: int, width: int, patch_size: tuple[int, int], max_patches: int) -> tuple[int, int]:
    """Return the grid in patches of an image that is scaled to at most `max_patches` patches.

    The scale is found by bisection between 1e-6 and 100, to 1e-5, as in timm and transformers.

    Args:
        height: of the image, in pixels.
        width: of the image, in pixels.
        patch_size: (height, width) of a patch in pixels.
        max_patches: number of patches at most.
    """
    low, high = _STEP / 10, 100.0
    while high - low >= _STEP:
        scale = (low + high) / 2
        if math.prod(_grid(height, width, patch_size, scale)) <= max_patches:
            low = scale
        else:
            high = scale
    return _grid(height, width, patch_size, low)


def _grid(height, width, patch_size, scale) -> tuple[int, int]:
    down, across = (math.ceil(side * scale / patch) for side, patch in zip((height, width), patch_size, strict=True))
    return down, across


def _cut(image, patch_size, max_patches, spec) -> tuple[tuple[int, int], np.ndarray]:
    """Resize and normalise an image. Return its grid and its patches (grid height * width, P * P * C)."""
    grid = fitted_grid(*image.shape[:2], patch_size, max_patches)
    size = grid[0] * patch_size[0], grid[1] * patch_size[1]
    if size == image.shape[:2]:
        resized = image.astype("float32")
    elif spec.antialias or spec.interpolation == "nearest":
        resized = resize_as_pillow(image, size, spec.interpolation)
    else:
        resized = resize_image(image, size, spec.interpolation, antialias=False)
    cells = spec.normalize(resized).reshape(grid[0], patch_size[0], grid[1], patch_size[1], -1)
    return grid, cells.transpose(0, 2, 1, 3, 4).reshape(grid[0] * grid[1], -1)
