"""Resize images without TensorFlow, with TensorFlow's result or with Pillow's.

H W C image, h w new size, R rows, P values per row.
"""

import numpy as np


def resize_image(
    image: np.ndarray, size: tuple[int, int], interpolation: str = "bilinear", antialias: bool = True
) -> np.ndarray:
    """Resize an image as TensorFlow.

    Bilinear results differ from `keras_vit.preprocessing.inputs.resize` by float32 rounding only, by less than 0.01.

    Args:
        image: pixels (H, W, C) in 0..255.
        size: (height, width).
        interpolation: `bilinear` or `bicubic`.
        antialias: whether the kernel widens when the image shrinks.

    Returns:
        float32 (height, width, C).
    """
    kernel, reach = _KERNELS[interpolation]
    (height, width), channels = size, image.shape[2]
    rows = _resize_rows(image.reshape(len(image), -1), height, kernel, reach, antialias)
    rows = rows.reshape(height, -1, channels)  # (h, W, C)
    columns = np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(rows.shape[1], -1)  # (W, h * C)
    columns = _resize_rows(columns, width, kernel, reach, antialias)
    resized = columns.reshape(width, height, channels).transpose(1, 0, 2)  # (h, w, C)
    return np.clip(resized, 0, 255) if interpolation == "bicubic" else resized  # which can overshoot


def resize_as_pillow(image: np.ndarray, size: tuple[int, int], interpolation: str) -> np.ndarray:
    """Resize an image (H, W, C) uint8 as Pillow, which rounds to 8 bits after each of its two passes.

    Args:
        image: pixels uint8 (H, W, C).
        size: (height, width).
        interpolation: one of `image_spec.INTERPOLATIONS`.

    Returns:
        float32 (height, width, C) of whole numbers.
    """
    from PIL import Image

    resized = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    between = (size[0], image.shape[1]) if rows_first(*image.shape[:2], *size) else (image.shape[0], size[1])
    for height, width in (between, size):
        resized = resized.resize((width, height), Image.Resampling[interpolation.upper()])
    return np.asarray(resized, "float32").reshape(*size, image.shape[2])


def _triangle(x):
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(x, a=-0.5):
    """Return the cubic convolution kernel (Keys 1981), with the `a` of TensorFlow and Pillow."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


_KERNELS = {"bilinear": (_triangle, 1), "bicubic": (_cubic, 2)}  # kernel and half of its width


def _resize_rows(rows: np.ndarray, count: int, kernel, reach: int, antialias: bool) -> np.ndarray:
    """Resize (R, P) to (count, P): each new row is a mean of old rows, weighted by a kernel."""
    scale = len(rows) / count
    stretch = max(scale, 1.0) if antialias else 1.0
    reach = reach * stretch  # half of the kernel's width, in rows
    resized = np.empty((count, rows.shape[1]), "float32")
    for i in range(count):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - reach), 0), min(int(centre + reach) + 1, len(rows))
        weights = kernel((np.arange(first, last) + 0.5 - centre) / stretch)
        resized[i] = (weights / weights.sum()).astype("float32") @ rows[first:last].astype("float32")
    return resized


def rows_first(height, width, new_height, new_width):
    """Return whether the rows are resized before the columns, for ints or tensors.

    This is the order of Pillow 13. Older versions always begin with the columns.
    """
    return (new_height < height) & (2 * (width - new_width) < height - new_height)
