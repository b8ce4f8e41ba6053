"""Draw the predictions of a model on a split.

N images, H W C image.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_vit.analysis.plots.names import shortened
from keras_vit.analysis.plots.style import BLUE, GREY, VERMILION, canvas, show_image, to_rgb

BORDER = 0.3  # inches around the sheet
LEGEND = "Under each image the predicted class and its score; under a mistake also the true class."
HEADING, GAP = 0.4, 0.16  # inches: of a heading, between images


class _Section(NamedTuple):
    heading: str
    indices: np.ndarray
    caption_height: float  # inches


def plot_predictions(
    images,
    true_labels,
    predicted_labels,
    scores,
    output: str | os.PathLike,
    *,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    value_range: tuple[float, float] | None = None,
    legend: str = LEGEND,
):
    """Draw images with their predicted and true classes: mistakes, the least confident correct ones, and a sample.

    Args:
        images: (N, H, W, 1 or 3), the whole split. The title has the accuracy of all images; the sheet shows some.
        true_labels: N class indices or names.
        predicted_labels: N class indices or names.
        scores: N probabilities of the predicted classes.
        output: path of the PNG file.
        names: class names, if the labels are indices.
        columns: images per row; by default 12, or 6 for images larger than 64 pixels.
        value_range: pixel values of black and white, as in `to_rgb`.
        legend: the line below the title.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the arguments differ in length, or the images are neither grey nor RGB.
    """
    images = to_rgb(images, value_range)
    true, predicted, scores = (np.asarray(x) for x in (true_labels, predicted_labels, scores))
    for argument, values in {"true_labels": true, "predicted_labels": predicted, "scores": scores}.items():
        if values.shape != (len(images),):
            raise ValueError(f"{argument} expected shape ({len(images)},), one per image, received {values.shape}.")
    large, correct = min(images.shape[1:3]) > 64, true == predicted
    columns = columns or (6 if large else 12)
    cell = 1.75 if large else 0.95  # inches of an image's width
    height = cell * images.shape[1] / images.shape[2]
    sections = [section for section in _sections(correct, scores, columns) if section.indices.size]
    tops, y = [], 0.6
    for section in sections:
        tops.append(y)
        y += HEADING + -(-len(section.indices) // columns) * (height + section.caption_height)
    name = lambda label: str(label if names is None else names[label])  # noqa: E731
    with canvas(output, (2 * BORDER + columns * cell + (columns - 1) * GAP, y + 2 * BORDER)) as figure:
        sheet = _Sheet(figure)
        sheet.title(int(correct.sum()), len(images), legend)
        for top, section in zip(tops, sections, strict=True):
            sheet.text(0, top + 0.12, section.heading, fontsize=11)
            for k, i in enumerate(section.indices):
                row, column = divmod(k, columns)
                y = top + HEADING + row * (height + section.caption_height)
                axes = sheet.axes(column * (cell + GAP), y, cell, height)
                show_image(axes, images[i])
                _draw_caption(axes, cell, name(predicted[i]), name(true[i]), scores[i], correct[i])
    return figure


def _sections(correct, scores, columns):
    """Return up to three rows of mistakes, one row of the least confident correct images, and one row of the rest."""
    by_score = np.argsort(scores, kind="stable")
    wrong, right = by_score[~correct[by_score]][::-1], by_score[correct[by_score]]
    mistakes = f"{len(wrong):,} mistakes" if len(wrong) > 1 else "1 mistake"
    if len(wrong) > 1:
        most = f", the {3 * columns} most confident" if len(wrong) > 3 * columns else ", most confident first"
        mistakes += most
    least, rest = right[:columns], right[columns:]
    sample = np.sort(rest)[np.linspace(0, len(rest) - 1, min(columns, len(rest))).astype(int)]
    return [
        _Section(mistakes, wrong[: 3 * columns], 0.5),
        _Section("Correct, least confident first", least, 0.32),
        _Section("Correct, a sample of the rest", sample, 0.32),
    ]


def _draw_caption(axes, cell, predicted, true, score, correct):
    """Draw a frame and a caption. Mistakes differ in mark, frame and words, not only in colour."""
    letters = int(cell * 16)  # that fit under an image
    colour = BLUE if correct else VERMILION
    text = f"{'✓' if correct else '✗'} {shortened(predicted, letters - 7)}, {score:.0%}"
    axes.spines[:].set(visible=True, color=colour, lw=0.8 if correct else 2, ls="-" if correct else (0, (3, 1.5)))
    below = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "fontsize": 7.5}
    axes.annotate(text, (0, 0), (0, -4), color=colour, weight="bold", **below)
    if not correct:
        axes.annotate(f"is {shortened(true, letters - 3)}", (0, 0), (0, -17), **below)


class _Sheet:
    """A figure with positions in inches from the top left corner inside the border."""

    def __init__(self, figure):
        self.figure = figure
        self.width, self.height = figure.get_size_inches()

    def axes(self, x, y, width, height):
        left, bottom = BORDER + x, self.height - BORDER - y - height
        return self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))

    def text(self, x, y, text, **options):
        self.figure.text((BORDER + x) / self.width, 1 - (BORDER + y) / self.height, text, va="top", **options)

    def title(self, correct, total, legend):
        self.text(0, 0, f"{100 * correct / total:.1f} % of {total:,} images correct", fontsize=14, weight="bold")
        self.text(0, 0.3, legend, fontsize=9, color=GREY)
