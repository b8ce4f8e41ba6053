"""Draw the predictions of a regression. The figure fits the width of a phone."""

import os
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.plots.names import drawable
from keras_vit.analysis.plots.style import BLUE, FAINT, GREY, canvas

WIDTH, HEIGHT = 4.4, 4.0  # inches of a target's panel


def plot_values(values, predicted, names: Sequence[str], output: str | os.PathLike | BinaryIO):
    """Draw the predicted values over the true ones, a panel for each target. Right predictions lie on the diagonal.

    Args:
        values: (N, T) true values.
        predicted: (N, T) predicted values.
        names: T names of the targets.
        output: path of the PNG file, or an open file.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the shapes do not match.
    """
    values, predicted = np.asarray(values, "float64"), np.asarray(predicted, "float64")
    if values.shape != predicted.shape or values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(f"values and predicted expected shape (N, {len(names)}), received {values.shape} and "
                         f"{predicted.shape}.")  # fmt: skip
    with canvas(output, (WIDTH, HEIGHT * len(names)), layout="constrained") as figure:
        panels = figure.subplots(len(names), 1, squeeze=False)[:, 0]
        for axes, name, true, found in zip(panels, drawable(names, "target"), values.T, predicted.T, strict=True):
            ends = [min(true.min(), found.min()), max(true.max(), found.max())]
            axes.plot(ends, ends, color=GREY, lw=1, ls="--")
            axes.scatter(true, found, s=14, color=BLUE, alpha=0.6, linewidths=0)
            axes.set(xlabel=f"true {name}", ylabel=f"predicted {name}", title=name)
            axes.grid(color=FAINT)
    return figure
