"""Resize images in NumPy, with the same result as TensorFlow.

H W C image, h w new size, R rows, P values per row.
"""

import numpy as np


def resize_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize an image with antialiased bilinear interpolation.

    The result differs from `keras_vit.preprocessing.inputs.resize` by float32 rounding only, by less than 0.01.

    Args:
        image: pixels (H, W, C) in 0..255.
        size: (height, width).

    Returns:
        float32 (height, width, C).
    """
    (height, width), channels = size, image.shape[2]
    rows = _resize_rows(image.reshape(len(image), -1), height).reshape(height, -1, channels)  # (h, W, C)
    columns = np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(rows.shape[1], -1)  # (W, h * C)
    return _resize_rows(columns, width).reshape(width, height, channels).transpose(1, 0, 2)  # (h, w, C)


def _resize_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """Resize (R, P) to (count, P): each new row is a mean of old rows, weighted by a triangle filter."""
    scale = len(rows) / count
    reach = max(scale, 1.0)  # half of the triangle's width, in rows
    resized = np.empty((count, rows.shape[1]), "float32")
    for i in range(count):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - reach), 0), min(int(centre + reach) + 1, len(rows))
        weights = np.maximum(0.0, 1.0 - np.abs(np.arange(first, last) + 0.5 - centre) / reach)
        resized[i] = (weights / weights.sum()).astype("float32") @ rows[first:last].astype("float32")
    return resized
