"""Draw the reliability curve of a classifier, and its accuracy by coverage. The figures fit the width of a phone."""

import os
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.plots.style import BLUE, FAINT, GREY, VERMILION, canvas

WIDTH = 4.4  # inches


def plot_reliability(bins: list[dict], output: str | os.PathLike | BinaryIO, calibrated: list[dict] | None = None):
    """Draw the accuracy of each bin of confidence. A calibrated classifier lies on the diagonal.

    Args:
        bins: rows with `low`, `high`, `images`, `confidence` and `accuracy`, from
            `keras_vit.evaluate.calibration.calibration`.
        output: path of the PNG file, or an open file.
        calibrated: the same after temperature scaling; None without.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    with canvas(output, (WIDTH, 4.6), layout="constrained") as figure:
        axes, counts = figure.subplots(2, 1, height_ratios=(4, 1), sharex=True)
        axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--", label="perfect")
        curves = [(bins, BLUE, "o", "as it is" if calibrated else "the model")]
        curves += [(calibrated, VERMILION, "s", "with the temperature")] if calibrated else []
        for rows, colour, marker, label in curves:
            rows = [row for row in rows if row["images"]]
            points = np.array([(row["confidence"], row["accuracy"]) for row in rows])
            axes.plot(*points.T, color=colour, marker=marker, ms=5, lw=1.8, label=label)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="accuracy")
        axes.set_aspect("auto")
        axes.grid(color=FAINT)
        axes.legend(frameon=False, fontsize=10, loc="upper left")
        axes.set_title("Reliability")
        centres = [(row["low"] + row["high"]) / 2 for row in bins]
        width = 0.9 * (bins[0]["high"] - bins[0]["low"])
        counts.bar(centres, [row["images"] for row in bins], width, color=BLUE)
        counts.set(xlabel="confidence", ylabel="images")
    return figure


def plot_coverage(curve, output: str | os.PathLike | BinaryIO):
    """Draw the accuracy of the answered images by coverage, the fraction of answered images.

    Args:
        curve: (thresholds, 3) with threshold, coverage and accuracy, from
            `keras_vit.evaluate.mistakes.coverage_curve`.
        output: path of the PNG file, or an open file.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    curve = np.asarray(curve)
    with canvas(output, (WIDTH, 3.2), layout="constrained") as figure:
        axes = figure.subplots()
        axes.plot(100 * curve[:, 1], 100 * curve[:, 2], color=BLUE, lw=2)
        axes.set(xlabel="coverage, % of images answered", ylabel="accuracy, %", xlim=(0, 100))
        axes.grid(color=FAINT)
        axes.set_title("Accuracy of the answered images")
    return figure
