"""Draw a confusion matrix."""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.analysis.plots.names import drawable, shortened
from keras_vit.analysis.plots.style import GREY, INK, canvas

MAX_CLASSES = 25  # drawn; of more, those with the most mistakes
COLOUR_MAP = "Blues"  # white for no images


def plot_confusion(confusion, names: Sequence[str], output: str | os.PathLike):
    """Draw a confusion matrix: true classes down, predicted classes across, and the number of images in each cell.

    A colour is the share of the true class's images. Of more than 25 classes, those with the most mistakes are drawn.

    Args:
        confusion: (classes, classes) numbers of images, from `confusion_matrix`.
        names: class names.
        output: path of the PNG file.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the matrix is not square, has no images, or does not match the names.
    """
    confusion = np.asarray(confusion)
    if confusion.shape != (len(names), len(names)) or not confusion.sum():
        raise ValueError(
            f"confusion expected shape ({len(names)}, {len(names)}) with images, received {confusion.shape} with "
            f"{confusion.sum()} images."
        )
    drawn = _drawn_classes(confusion)
    texts = [shortened(name, 24) for name in drawable([str(name) for name in names])]
    texts = [texts[i] for i in drawn]
    counts, totals = confusion[np.ix_(drawn, drawn)], confusion.sum(axis=1)[drawn, None]
    shares = counts / np.maximum(totals, 1)
    cell = 0.45 if len(drawn) <= 12 else 0.34
    side = cell * len(drawn)
    with canvas(output, (max(side + 3.4, 5.2), max(side + 2.8, 3.6)), layout="constrained") as figure:
        axes = figure.subplots()
        picture = axes.imshow(shares, cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks(range(len(drawn)), texts, rotation=90, fontsize=8)
        axes.set_yticks(range(len(drawn)), texts, fontsize=8)
        axes.set(xlabel="predicted class", ylabel="true class")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for (i, j), count in np.ndenumerate(counts):
            if count:
                axes.text(j, i, f"{count:,}", ha="center", va="center", fontsize=7 if cell > 0.4 else 6,
                          color="white" if shares[i, j] > 0.6 else INK)  # fmt: skip
        axes.set_title(_title(confusion, len(drawn)), fontsize=10)
        bar = figure.colorbar(picture, ax=axes, shrink=0.7, aspect=22)
        bar.set_label("share of the true class", fontsize=9, color=GREY)
        bar.outline.set_visible(False)
    return figure


def confusion_matrix(true, predicted, classes: int) -> np.ndarray:
    """Return the numbers of images (classes, classes): true classes down, predicted classes across."""
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (np.asarray(true), np.asarray(predicted)), 1)
    return counts


def _drawn_classes(confusion):
    """Return the indices of the drawn classes, in order."""
    if len(confusion) <= MAX_CLASSES:
        return np.arange(len(confusion))
    mistakes = confusion.sum(axis=1) + confusion.sum(axis=0) - 2 * confusion.diagonal()
    return np.sort(np.argsort(-mistakes, kind="stable")[:MAX_CLASSES])


def _title(confusion, drawn):
    total = confusion.sum()
    title = f"{100 * np.trace(confusion) / total:.1f} % of {total:,} images correct"
    return (
        title if drawn == len(confusion) else f"{title};\nthe {drawn} of {len(confusion):,} classes with most mistakes"
    )
