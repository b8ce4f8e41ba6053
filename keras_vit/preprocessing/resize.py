"""Resizing an image without Keras and without TensorFlow, to the same pixels.

H W C image, h w the size it gets, R rows, r rows afterwards, P numbers a row.
"""

import numpy as np


def resize_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize (H, W, C) to `size`, bilinear with antialiasing; float32.

    The result differs from `keras_vit.preprocessing.inputs.resize` by float32's rounding alone: less than 0.01 of
    pixels 0..255.
    """
    (height, width), channels = size, image.shape[2]
    rows = _resize_rows(image.reshape(len(image), -1), height).reshape(height, -1, channels)  # (h, W, C)
    columns = np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(rows.shape[1], -1)  # (W, h * C)
    return _resize_rows(columns, width).reshape(width, height, channels).transpose(1, 0, 2)  # (h, w, C)


def _resize_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """Resize (R, P) to (count, P): each new row is a mean of those under a triangle around its place."""
    scale = len(rows) / count
    reach = max(scale, 1.0)  # of the triangle, in rows to either side
    resized = np.empty((count, rows.shape[1]), "float32")
    for i in range(count):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - reach), 0), min(int(centre + reach) + 1, len(rows))
        weights = np.maximum(0.0, 1.0 - np.abs(np.arange(first, last) + 0.5 - centre) / reach)
        resized[i] = (weights / weights.sum()).astype("float32") @ rows[first:last].astype("float32")
    return resized
