"""Resize position embeddings, patch kernels, and the input channels of first kernels.

h w grid, P patch height or width, C channels, D width.
"""

from functools import partial

import numpy as np

POSITION_METHODS = ("official", "timm", "timm_npz", "hf", "dinov2", "siglip2")
POSITION_METHODS += ("official_square", "timm_square", "timm_npz_square")


def require_method(method: str | None) -> None:
    """Raise a ValueError unless `method` is None or one of `POSITION_METHODS`."""
    if method is not None and method not in POSITION_METHODS:
        raise ValueError(f"position_resize expected None or one of {POSITION_METHODS}, received {method!r}.")


def resize_grid(grid: np.ndarray, size: tuple[int, int], method: str = "official") -> np.ndarray:
    """Resize (h, w, D) to (*size, D).

    Args:
        grid: the position embedding (h, w, D).
        size: (height, width) of the new grid.
        method: `official` is the official code's corner-aligned bilinear `zoom(order=1)` (section 3.2), `timm` is
            timm's antialiased bicubic, `timm_npz` is timm's bilinear for official files, `hf` is transformers'
            bicubic, `dinov2` is that of Meta's DINOv2 without registers, a bicubic of a grid 0.1 cells larger, and
            `siglip2` is an antialiased bilinear. A method that ends in `_square` resizes to a square of the longer
            side and crops it (NaFlex).

    Raises:
        ValueError: the method is unknown.
    """
    require_method(method)
    resized = (max(size),) * 2 if method.endswith("_square") else size
    matrix = _MATRICES[method.removesuffix("_square")]
    down, across = (matrix(new, old)[:kept] for new, old, kept in zip(resized, grid.shape[:2], size, strict=True))
    return np.einsum("ih,jw,hwd->ijd", down, across, grid, optimize=True).astype("float32")


def resize_kernel(kernel: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resample a patch kernel (P, P, C, D) to (*size, C, D) by the pseudo-inverse of resizing (arXiv 2212.08013).

    The new kernel has the same output on a bilinearly resized patch as the old kernel on the patch. This holds exactly
    for larger patches, and approximately for smaller ones.
    """
    inverses = (np.linalg.pinv(_bilinear(new, old).T) for new, old in zip(size, kernel.shape[:2], strict=True))
    return np.einsum("ih,jw,hwcd->ijcd", *inverses, kernel, optimize=True).astype("float32")


def resize_offsets(table: np.ndarray, count: int) -> np.ndarray:
    """Resize the embeddings (offsets, d) of an axis to `count` offsets, by linear interpolation as SAM's code does."""
    return (_bilinear(count, len(table)) @ table).astype("float32")


def resize_channels(kernel: np.ndarray, channels: int) -> np.ndarray:
    """Convert a first kernel (h, w, C, D) to another number of channels.

    One channel gets the sum of the old channels, so that a grey image has the same output as its RGB copy. More
    channels repeat the old ones, times old / new, which preserves the scale of the output. In a ResNet's root, weight
    standardisation undoes the scale of each filter.
    """
    old = kernel.shape[2]
    if channels == 1:
        return kernel.sum(axis=2, keepdims=True, dtype="float32")
    turns = np.arange(channels) % old
    return (kernel[:, :, turns] * (old / channels)).astype("float32")


def _centers(new: int, old: int) -> np.ndarray:
    """Return the centers of the new cells in coordinates of the old grid, with aligned outer edges."""
    return (np.arange(new) + 0.5) * old / new - 0.5


def _taps(source: np.ndarray, old: int, weight, radius: int) -> np.ndarray:
    """Return the matrix (new, old) of `weight(distance)`. Taps outside the grid are clamped to its border."""
    matrix = np.zeros((len(source), old))
    first = np.floor(source).astype(int)
    for offset in range(1 - radius, radius + 1):
        tap = first + offset
        np.add.at(matrix, (np.arange(len(source)), np.clip(tap, 0, old - 1)), weight(np.abs(source - tap)))
    return matrix


def _triangle(x):
    return np.maximum(1 - x, 0)


def _cubic(a: float):
    """Return Keys' cubic convolution kernel. torch uses a = -0.75, and -0.5 with antialiasing."""
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731
    far = lambda x: ((x - 5) * x + 8) * x * a - 4 * a  # noqa: E731
    return lambda x: np.where(x < 1, near(x), np.where(x < 2, far(x), 0.0))


def _corner_aligned(new: int, old: int) -> np.ndarray:
    source = np.linspace(0, old - 1, new) if new > 1 else np.zeros(1)
    return _taps(source, old, _triangle, 1)


def _bilinear(new: int, old: int) -> np.ndarray:
    return _taps(_centers(new, old), old, _triangle, 1)


def _bicubic(new: int, old: int) -> np.ndarray:
    return _taps(_centers(new, old), old, _cubic(-0.75), 2)


def _bicubic_of_a_larger_grid(new: int, old: int) -> np.ndarray:
    source = (np.arange(new) + 0.5) * old / (new + 0.1) - 0.5
    return _taps(source, old, _cubic(-0.75), 2)


def _antialiased(weight, new: int, old: int) -> np.ndarray:
    stretch = max(old / new, 1.0)
    distance = np.abs(_centers(new, old)[:, None] - np.arange(old)[None, :])
    matrix = weight(distance / stretch)
    return matrix / matrix.sum(axis=1, keepdims=True)


_MATRICES = {
    "official": _corner_aligned,
    "timm": partial(_antialiased, _cubic(-0.5)),
    "timm_npz": _bilinear,
    "hf": _bicubic,
    "dinov2": _bicubic_of_a_larger_grid,
    "siglip2": partial(_antialiased, _triangle),
}


def resize_bias_table(table: np.ndarray, old: tuple[int, int], new: tuple[int, int]) -> np.ndarray:
    """Resize a table of relative biases as BEiT's code and timm do: small offsets keep their biases.

    The offsets of the file are placed at distances that grow as a geometric series, so that they span the new grid, and
    the biases between them are interpolated linearly.

    Args:
        table: (offsets and biases of prefix tokens, H).
        old: grid of the table in patches.
        new: grid of the result in patches.
    """
    sides = [(2 * before - 1, 2 * after - 1) for before, after in zip(old, new, strict=True)]
    count = sides[0][0] * sides[1][0]
    offsets, further = table[:count].reshape(sides[0][0], sides[1][0], -1), table[count:]
    for axis, (before, after) in enumerate(sides):
        places, wanted = _offset_places(before, after), np.arange(after) - after // 2
        moved = np.moveaxis(offsets, axis, 0)
        flat = moved.reshape(before, -1)
        flat = np.stack([np.interp(wanted, places, values) for values in flat.T], axis=1)
        offsets = np.moveaxis(flat.reshape(after, *moved.shape[1:]), 0, axis)
    return np.concatenate([offsets.reshape(-1, table.shape[1]), further]).astype("float32")


def _offset_places(before: int, after: int) -> np.ndarray:
    """Return the distances at which the offsets of a side are placed: 0, 1, 1 + q, 1 + q + q^2 and so on."""
    least, most, ratio = 1.01, 1.5, 1.5
    while most - least > 1e-6:
        ratio = (least + most) / 2
        if (1 - ratio ** (before // 2)) / (1 - ratio) > after // 2:
            most = ratio
        else:
            least = ratio
    distances = np.cumsum([ratio**i for i in range(before // 2)])
    return np.concatenate([-distances[::-1], [0.0], distances])
