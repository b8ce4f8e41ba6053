"""Define the options of a format's writer."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class WriteOptions:
    """The options of `keras_vit.export.export` that concern a file, and the precision of its row in the table.

    Args:
        dtype: dtype in which a SavedModel stores weights and computes; the model's own if None.
        batch: batch size of TFLite files; None if it is free.
        calibration: (N, H, W, C) images in the model's input range, to measure the ranges of integers on; None without.
        adapters: adapted models by name, which a SavedModel stores next to the model.
        precision: precision of the stored weights, as the format's writer names it.
    """

    dtype: str | None = None
    batch: int | None = 1
    calibration: np.ndarray | None = None
    adapters: dict = field(default_factory=dict)
    precision: str = "float32"
