"""What a model predicts and where it looks, drawn on the images.

B batch, H W C image, K maps, (down, across) patch grid.
"""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.analysis.plots.style import BLUE, COLOUR_MAP, GREY, VERMILION, canvas, shortened, show, visible

BORDER = 0.3  # inches around a sheet


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
):
    """Draw a sheet of images with predicted and true class: mistakes first, then the least sure, then a sample.

    Args:
        images: (n, H, W, 1 or 3), the whole split: the title's accuracy is of all of it, the sheet shows a part.
        true_labels: n class numbers or names.
        predicted_labels: n class numbers or names.
        scores: n probabilities of the predicted class, in [0, 1].
        output: where the PNG goes.
        names: of the classes, where the labels are numbers.
        columns: images side by side; 12 where None, 6 if the images are larger than 64 pixels.
        value_range: the images' values of black and white; see `visible`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the arguments are not of one length, or the images neither grey nor RGB.
    """
    images = visible(images, value_range)
    true, predicted, scores = (np.asarray(x) for x in (true_labels, predicted_labels, scores))
    for argument, values in {"true_labels": true, "predicted_labels": predicted, "scores": scores}.items():
        if values.shape != (len(images),):
            raise ValueError(f"{argument} expected shape ({len(images)},), one an image, received {values.shape}.")
    large = min(images.shape[1:3]) > 64
    columns = columns or (6 if large else 12)
    cell = 1.75 if large else 0.95  # inches of an image's width
    height = cell * images.shape[1] / images.shape[2]
    sections = [part for part in _sections(true == predicted, scores, columns) if part[1].size]
    line, gap = 0.4, 0.16  # inches: a heading, between images
    width = 2 * BORDER + columns * cell + (columns - 1) * gap
    tops, y = [], 0.6
    for _, chosen, caption in sections:
        tops.append(y)
        y += line + -(-len(chosen) // columns) * (height + caption)

    def name(label):
        return str(label if names is None else names[label])

    with canvas(output, (width, y + 2 * BORDER)) as figure:
        place = _Sheet(figure)
        right = int((true == predicted).sum())
        place.text(
            0, 0, f"{100 * right / len(images):.1f} % of {len(images):,} images right", fontsize=14, weight="bold"
        )
        legend = "Under each image the predicted class and its score; under a mistake also what it really is."
        place.text(0, 0.3, legend, fontsize=9, color=GREY)
        for top, (heading, chosen, caption) in zip(tops, sections, strict=True):
            place.text(0, top + 0.12, heading, fontsize=11)
            for k, i in enumerate(chosen):
                row, column = divmod(k, columns)
                axes = place.axes(column * (cell + gap), top + line + row * (height + caption), cell, height)
                show(axes, images[i])
                _caption(axes, cell, name(predicted[i]), name(true[i]), scores[i], true[i] == predicted[i])
    return figure


def _sections(right, scores, columns):
    """(heading, indices, inches under an image) of the sheet's parts: up to three rows of mistakes, then one each."""
    by_score = np.argsort(scores, kind="stable")
    wrong, sound = by_score[~right[by_score]][::-1], by_score[right[by_score]]
    mistakes = f"{len(wrong):,} mistakes" if len(wrong) > 1 else "1 mistake"
    if len(wrong) > 1:
        mistakes += f", the {3 * columns} surest" if len(wrong) > 3 * columns else ", surest first"
    least, rest = sound[:columns], sound[columns:]
    sample = np.sort(rest)[np.linspace(0, len(rest) - 1, min(columns, len(rest))).astype(int)]
    return [
        (mistakes, wrong[: 3 * columns], 0.5),
        ("Right, but least sure", least, 0.32),
        ("Right, a sample of the rest", sample, 0.32),
    ]


def _caption(axes, cell, predicted, true, score, right):
    """A frame and what stands under an image: told apart by mark, frame and words, not by colour alone."""
    letters = int(cell * 16)  # of this size, as far as the next image
    colour = BLUE if right else VERMILION
    said = f"{'✓' if right else '✗'} {shortened(predicted, letters - 7)}, {score:.0%}"
    axes.spines[:].set(visible=True, color=colour, lw=0.8 if right else 2, ls="-" if right else (0, (3, 1.5)))
    below = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "fontsize": 7.5}
    axes.annotate(said, (0, 0), (0, -4), color=colour, weight="bold", **below)
    if not right:
        axes.annotate(f"is {shortened(true, letters - 3)}", (0, 0), (0, -17), **below)


class _Sheet:
    """Places things on a figure in inches from its border, downwards."""

    def __init__(self, figure):
        self.figure = figure
        self.width, self.height = figure.get_size_inches()

    def axes(self, x, y, width, height):
        left, bottom = BORDER + x, self.height - BORDER - y - height
        return self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))

    def text(self, x, y, text, **options):
        self.figure.text((BORDER + x) / self.width, 1 - (BORDER + y) / self.height, text, va="top", **options)


def plot_attention(
    images,
    maps,
    output: str | os.PathLike,
    *,
    titles: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    patch_size: tuple[int, int] | None = None,
    value_range: tuple[float, float] | None = None,
    unit: str = "attention",
):
    """Draw images and, over each, how attention is spread on its patches, with one colour bar a kind of map.

    Args:
        images: (B, H, W, 1 or 3).
        maps: (B, K, down, across) or (B, down, across) of `class_attention` or `rollout_maps`; not negative.
            Drawn as multiples of the map's mean: 1 is what every patch gets when attention is spread evenly.
            Single maps may be all zero.
        output: where the PNG goes.
        titles: K names of the maps.
        names: B names of the images.
        title: of the whole picture.
        patch_size: pixels (height, width) of a patch; the image's size divided by the grid's where None.
        value_range: the images' values of black and white; see `visible`.
        unit: what the maps are of, for the colour bars.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: maps, titles or names do not fit the images, or these are neither grey nor RGB.
    """
    images = visible(images, value_range)
    maps = np.asarray(maps, "float32")
    maps = maps[:, None] if maps.ndim == 3 else maps
    if maps.ndim != 4 or len(maps) != len(images):
        raise ValueError(
            f"maps expected shape ({len(images)}, maps, down, across) for {len(images)} images, received {maps.shape}."
        )
    if not (maps.min() >= 0 and maps.max() > 0):
        raise ValueError("maps expected attention, not negative and not all zero, received something else.")
    titles, names = _checked("titles", titles, maps.shape[1]), _checked("names", names, len(images))
    maps = maps / np.maximum(maps.mean(axis=(2, 3), keepdims=True), 1e-30)
    (height, width), grid = images.shape[1:3], maps.shape[2:]
    patch = patch_size or (height / grid[0], width / grid[1])
    across = len(images) >= 3  # images side by side and maps below; one or two images: maps to their right
    shape = (1 + len(titles), len(images)) if across else (len(images), 1 + len(titles))
    cell = 2.1 if min(height, width) > 64 else 1.5
    size = (shape[1] * (cell + 0.1) + 1.5, shape[0] * (cell * height / width + 0.25) + (0.8 if across else 1.5))
    with canvas(output, size, layout="constrained") as figure:
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
        panels = figure.subplots(*shape, squeeze=False)
        panels = panels if across else panels.T  # (1 + K, B)
        for i, image in enumerate(images):
            show(panels[0, i], image)
            (panels[0, i].set_title if across else panels[0, i].set_ylabel)(shortened(names[i], 24), weight="normal")
        for k, kind in enumerate(titles):
            top = max(2.0, float(np.quantile(maps[:, k], 0.98)))
            for image, chosen, axes in zip(images, maps[:, k], panels[k + 1], strict=True):
                colours = _overlay(axes, image, chosen, patch, top)
            (panels[k + 1, 0].set_ylabel if across else panels[k + 1, 0].set_title)(kind, fontsize=11, weight="normal")
            bar = figure.colorbar(
                colours, ax=list(panels[k + 1]), location="right" if across else "bottom", extend="max",
                aspect=12, shrink=0.85, pad=0.02,
            )  # fmt: skip
            bar.set_label(f"{unit},\n× even share" if across else f"{unit}, × even share", fontsize=9)
            bar.outline.set_visible(False)
        for axes in panels.flat:
            axes.set_anchor("C" if across else "N")
    return figure


def _overlay(axes, image, attention, patch, top):
    """Attention in colour over the image in grey; the grid covers the pixels that the patches cover."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    colours = colormaps[COLOUR_MAP](np.linspace(0, 1, 256))
    colours[:, 3] = 0.3 + 0.6 * np.linspace(0, 1, 256) ** 0.5  # where little attention goes, the image shines through
    height, width = image.shape[:2]
    grey = image @ np.array([0.299, 0.587, 0.114], image.dtype)
    show(axes, np.repeat(grey[..., None], 3, axis=2), extent=(0, width, height, 0))
    covered = (0, attention.shape[1] * patch[1], attention.shape[0] * patch[0], 0)
    drawn = axes.imshow(
        attention, cmap=ListedColormap(colours), vmin=0, vmax=top, interpolation="bicubic", extent=covered,
        interpolation_stage="data",
    )  # fmt: skip
    axes.set(xlim=(0, width), ylim=(height, 0))
    return drawn


def _checked(argument, texts, count):
    texts = [""] * count if texts is None else list(texts)
    if len(texts) != count:
        raise ValueError(f"{argument} expected {count} texts, received {len(texts)}.")
    return texts
