"""Draw how well a model finds each of several labels."""

import os
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.plots.names import drawable, shortened
from keras_vit.analysis.plots.style import BLUE, FAINT, GREY, VERMILION, canvas

MOST = 40  # labels in the picture
WIDTH, ROW = 6.4, 0.28  # inches


def plot_labels(
    names: Sequence[str], images, precisions, f1, output: str | os.PathLike | BinaryIO, intervals=None
):  # fmt: skip
    """Draw average precision and F1 of each label, the lowest average precision at the top.

    Args:
        names: K names of the labels.
        images: K numbers of images with the label. Labels without images are left out.
        precisions: K average precisions in [0, 1].
        f1: K values of F1 in [0, 1].
        output: path of the PNG file, or an open file.
        intervals: lowest and highest likely average precisions, (2, K); None without.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    images, precisions, f1 = np.asarray(images), np.asarray(precisions, "float64"), np.asarray(f1, "float64")
    known = np.flatnonzero(images)
    chosen = known[np.argsort(precisions[known], kind="stable")][:MOST]
    texts = drawable(names, "label")
    with canvas(output, (WIDTH, 1.5 + ROW * len(chosen)), layout="constrained") as figure:
        axes = figure.add_subplot()
        places = range(len(chosen))
        if intervals is not None:
            ends = 100 * np.asarray(intervals, "float64")[:, chosen]
            axes.hlines(places, *ends, color=BLUE, lw=2, alpha=0.4)
        axes.plot(100 * precisions[chosen], places, "o", color=BLUE, ms=6, label="average precision")
        axes.plot(100 * f1[chosen], places, "D", color=VERMILION, ms=4, label="F1 at the threshold")
        axes.set_yticks(places, [f"{shortened(texts[i], 24)} ({images[i]:,})" for i in chosen])
        axes.set(xlim=(-2, 102), ylim=(len(chosen) - 0.5, -0.5), xlabel="%")
        more = f", the lowest {MOST} of {len(known):,}" if len(known) > MOST else ""
        axes.set_title(f"Labels, with their images{more}")
        axes.grid(axis="x", color=FAINT)
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower left", frameon=False, ncols=2, labelcolor=GREY, fontsize=9)
    return figure
