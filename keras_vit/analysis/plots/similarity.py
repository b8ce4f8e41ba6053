"""Pictures of what is alike: layers, neighbours, and images on a plane."""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.analysis.plots.style import (
    BLUE,
    COLOUR_MAP,
    GREEN,
    GREY,
    OTHERS,
    VERMILION,
    canvas,
    shortened,
    show,
    visible,
)

MOST_THUMBNAILS = 200


def plot_similarity(
    similarity,
    rows: Sequence[str],
    columns: Sequence[str],
    output: str | os.PathLike,
    *,
    names: tuple[str, str] = ("", ""),
    title: str = "How alike layers are",
):
    """Draw linear CKA of layers as a map of squares.

    Args:
        similarity: (L, M) in [0, 1], of `layer_similarity`.
        rows: L names of layers.
        columns: M names of layers.
        output: where the PNG goes.
        names: of the rows' model and the columns'.
        title: of the picture.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: there is not one name a row and a column.
    """
    similarity = np.asarray(similarity)
    if similarity.shape != (len(rows), len(columns)):
        raise ValueError(f"similarity expected shape ({len(rows)}, {len(columns)}), received {similarity.shape}.")
    cell = 0.42 if max(similarity.shape) <= 16 else 0.28
    size = (2.6 + cell * len(columns), 2.0 + cell * len(rows))
    with canvas(output, (max(size[0], 4.6), max(size[1], 3.4)), layout="constrained") as figure:
        axes = figure.subplots()
        drawn = axes.imshow(similarity, cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks(range(len(columns)), [_short(name) for name in columns], rotation=90, fontsize=8)
        axes.set_yticks(range(len(rows)), [_short(name) for name in rows], fontsize=8)
        axes.set(xlabel=names[1], ylabel=names[0])
        axes.spines[:].set_visible(False)
        if cell > 0.4:
            for (i, j), value in np.ndenumerate(similarity):
                axes.text(j, i, f"{value:.2f}"[0 if value >= 0.995 else 1 :], ha="center", va="center", fontsize=7,
                          color="black" if value > 0.6 else "white")  # fmt: skip
        axes.set_title(title)
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, aspect=22)
        bar.set_label("linear CKA (1: alike but for rotation and scale)", fontsize=9)
        bar.outline.set_visible(False)
    return figure


def plot_neighbours(
    images,
    found,
    output: str | os.PathLike,
    *,
    queries=None,
    similarities=None,
    names: Sequence[str] | None = None,
    query_names: Sequence[str] | None = None,
    value_range: tuple[float, float] | None = None,
):
    """Draw images with their nearest neighbours to the right, the most similar first.

    Args:
        images: (N, H, W, 1 or 3), that were searched.
        found: (Q, k) indices into `images`, of `nearest`.
        output: where the PNG goes.
        queries: (Q, H, W, 1 or 3); where None the first Q of `images`.
        similarities: (Q, k) to be written under the neighbours.
        names: N names, written under the images.
        query_names: Q names.
        value_range: the images' values of black and white; see `visible`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: images, indices and names do not fit each other.
    """
    images, found = visible(images, value_range), np.asarray(found)
    asked = images[: len(found)] if queries is None else visible(queries, value_range)
    if found.ndim != 2 or len(asked) != len(found) or not found.size or found.max() >= len(images):
        raise ValueError(f"found expected (queries, k) indices of {len(images)} images, received shape {found.shape}.")
    if names is not None and len(names) != len(images):
        raise ValueError(f"names expected {len(images)} texts, received {len(names)}.")
    query_names = query_names if query_names is not None or queries is not None else names
    cell, ratio = 1.1, images.shape[1] / images.shape[2]
    size = (0.4 + (cell + 0.12) * (1 + found.shape[1]) + 0.3, 0.9 + len(found) * (cell * ratio + 0.42))
    with canvas(output, size, layout="constrained") as figure:
        figure.suptitle("Nearest neighbours by the model's features", x=0.01, ha="left", fontsize=12, weight="bold")
        panels = figure.subplots(len(found), 1 + found.shape[1], squeeze=False)
        panels[0, 0].set_title("image", fontsize=10, loc="center", weight="bold")
        for place in range(found.shape[1]):
            panels[0, 1 + place].set_title(f"{place + 1}.", fontsize=10, loc="center", weight="normal")
        for i, (row, axes) in enumerate(zip(found, panels, strict=True)):
            show(axes[0], asked[i])
            axes[0].spines[:].set(visible=True, color=BLUE, lw=1.5)
            axes[0].set_xlabel(shortened(query_names[i], 16) if query_names is not None else "", fontsize=8)
            for place, index in enumerate(row):
                show(axes[1 + place], images[index])
                said = [] if names is None else [shortened(names[index], 16)]
                said += [] if similarities is None else [f"{similarities[i][place]:.2f}"]
                axes[1 + place].set_xlabel(", ".join(said), fontsize=8)
        if similarities is not None:
            figure.supxlabel("the number: cosine similarity of the features", fontsize=9, color=GREY)
    return figure


def plot_projection(
    plane,
    images,
    output: str | os.PathLike,
    *,
    labels: Sequence | None = None,
    title: str = "Images that the model finds alike lie near each other",
    method: str = "t-SNE",
    value_range: tuple[float, float] | None = None,
):
    """Draw images as thumbnails where `project` has put them, framed by class.

    Args:
        plane: (N, 2), of `project`.
        images: (N, H, W, 1 or 3).
        output: where the PNG goes.
        labels: N classes' names; every class has a colour and, where it lies on the whole, its name.
        title: of the picture.
        method: what laid them out, for the axes.
        value_range: the images' values of black and white; see `visible`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: there is not one place and one label an image.
    """
    plane, images = np.asarray(plane), visible(images, value_range)
    if plane.shape != (len(images), 2) or (labels is not None and len(labels) != len(images)):
        raise ValueError(f"plane expected shape ({len(images)}, 2), and one label an image, received {plane.shape}.")
    colours = (BLUE, VERMILION, GREEN, *OTHERS[:3], "#999933", "#882255", "#44AA99", "#332288")
    kinds = [] if labels is None else list(dict.fromkeys(labels))
    drawn = np.unique(np.linspace(0, len(images) - 1, min(len(images), MOST_THUMBNAILS)).round().astype(int))
    with canvas(output, (9, 7.6), layout="constrained") as figure:
        from matplotlib.offsetbox import AnnotationBbox, OffsetImage

        axes = figure.subplots()
        axes.scatter(*plane.T, s=4, color=GREY, lw=0)
        zoom = 26 / max(images.shape[1:3]) * (1.6 if len(drawn) <= 40 else 1.0)
        for i in drawn:
            colour = GREY if labels is None else colours[kinds.index(labels[i]) % len(colours)]
            frame = {"edgecolor": colour, "lw": 1.6, "boxstyle": "square,pad=0.06"}
            thumbnail = OffsetImage(images[i], zoom=zoom, interpolation="antialiased")
            axes.add_artist(AnnotationBbox(thumbnail, plane[i], pad=0.06, bboxprops=frame))
        for kind in kinds if 1 < len(kinds) <= 20 else []:
            of_kind = plane[[label == kind for label in labels]]
            middle = np.median(of_kind, axis=0)
            colour = colours[kinds.index(kind) % len(colours)]
            box = {"facecolor": "white", "edgecolor": colour, "alpha": 0.9, "boxstyle": "round,pad=0.2"}
            axes.text(*middle, shortened(kind, 20), fontsize=9, weight="bold", ha="center", va="center", bbox=box,
                      color="#222222", zorder=10)  # fmt: skip
        axes.margins(0.06)
        axes.set(xlabel=f"{method}, first axis (no unit)", ylabel=f"{method}, second axis (no unit)", title=title)
        axes.tick_params(labelsize=8)
    return figure


def _short(name):
    return name.replace("encoder_block_", "block ").replace("position_embedding", "positions").replace("_", " ")
