"""Draw the similarity of layers, nearest neighbours, and projections of images.

N images, H W C image, Q queries, L and M layers.
"""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.analysis.plots.names import shortened
from keras_vit.analysis.plots.style import (
    BLUE,
    COLOUR_MAP,
    GREEN,
    GREY,
    OTHERS,
    VERMILION,
    canvas,
    evenly_spaced,
    show_image,
    to_rgb,
)

MAX_THUMBNAILS = 200


def plot_similarity(
    similarity,
    rows: Sequence[str],
    columns: Sequence[str],
    output: str | os.PathLike,
    *,
    names: tuple[str, str] = ("", ""),
    title: str = "Similarity of layers",
):
    """Draw the linear CKA of layers as a matrix.

    Args:
        similarity: (L, M) in [0, 1], from `layer_similarity`.
        rows: L names of layers.
        columns: M names of layers.
        output: path of the PNG file.
        names: names of the model of the rows and of the model of the columns.
        title: title of the picture.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the numbers of names and of rows or columns differ.
    """
    similarity = np.asarray(similarity)
    if similarity.shape != (len(rows), len(columns)):
        raise ValueError(f"similarity expected shape ({len(rows)}, {len(columns)}), received {similarity.shape}.")
    cell = 0.42 if max(similarity.shape) <= 16 else 0.28
    size = (2.6 + cell * len(columns), 2.0 + cell * len(rows))
    with canvas(output, (max(size[0], 4.6), max(size[1], 3.4)), layout="constrained") as figure:
        axes = figure.subplots()
        picture = axes.imshow(similarity, cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks(range(len(columns)), [_short(name) for name in columns], rotation=90, fontsize=8)
        axes.set_yticks(range(len(rows)), [_short(name) for name in rows], fontsize=8)
        axes.set(xlabel=names[1], ylabel=names[0])
        axes.spines[:].set_visible(False)
        if cell > 0.4:
            for (i, j), value in np.ndenumerate(similarity):
                axes.text(j, i, f"{value:.2f}"[0 if value >= 0.995 else 1 :], ha="center", va="center", fontsize=7,
                          color="black" if value > 0.6 else "white")  # fmt: skip
        axes.set_title(title)
        bar = figure.colorbar(picture, ax=axes, shrink=0.8, aspect=22)
        bar.set_label("linear CKA (1: equal up to rotation and scale)", fontsize=9)
        bar.outline.set_visible(False)
    return figure


def plot_neighbours(
    images,
    indices,
    output: str | os.PathLike,
    *,
    queries=None,
    similarities=None,
    names: Sequence[str] | None = None,
    query_names: Sequence[str] | None = None,
    value_range: tuple[float, float] | None = None,
):
    """Draw queries with their nearest neighbours to the right, most similar first.

    Args:
        images: (N, H, W, 1 or 3), the candidates.
        indices: (Q, k) indices into `images`, from `nearest`.
        output: path of the PNG file.
        queries: (Q, H, W, 1 or 3); the first Q of `images` if None.
        similarities: (Q, k), written under the neighbours.
        names: N names, written under the images.
        query_names: Q names.
        value_range: pixel values of black and white, as in `to_rgb`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: images, indices and names do not match.
    """
    if queries is None and query_names is None:
        query_names = names
    images, indices = to_rgb(images, value_range), np.asarray(indices)
    queries = images[: len(indices)] if queries is None else to_rgb(queries, value_range)
    if indices.ndim != 2 or len(queries) != len(indices) or not indices.size or indices.max() >= len(images):
        raise ValueError(
            f"indices expected shape (queries, k) and values below {len(images)}, received shape {indices.shape}."
        )
    if names is not None and len(names) != len(images):
        raise ValueError(f"names expected {len(images)} texts, received {len(names)}.")
    cell, ratio = 1.1, images.shape[1] / images.shape[2]
    count, k = indices.shape
    size = (0.4 + (cell + 0.12) * (1 + k) + 0.3, 0.9 + count * (cell * ratio + 0.42))
    with canvas(output, size, layout="constrained") as figure:
        figure.suptitle("Nearest neighbours by the model's features", x=0.01, ha="left", fontsize=12, weight="bold")
        panels = figure.subplots(count, 1 + k, squeeze=False)
        panels[0, 0].set_title("query", fontsize=10, loc="center", weight="bold")
        for rank in range(k):
            panels[0, 1 + rank].set_title(f"{rank + 1}.", fontsize=10, loc="center", weight="normal")
        for i, (neighbours, axes) in enumerate(zip(indices, panels, strict=True)):
            show_image(axes[0], queries[i])
            axes[0].spines[:].set(visible=True, color=BLUE, lw=1.5)
            axes[0].set_xlabel(shortened(query_names[i], 16) if query_names is not None else "", fontsize=8)
            for rank, index in enumerate(neighbours):
                show_image(axes[1 + rank], images[index])
                texts = [] if names is None else [shortened(names[index], 16)]
                texts += [] if similarities is None else [f"{similarities[i][rank]:.2f}"]
                axes[1 + rank].set_xlabel(", ".join(texts), fontsize=8)
        if similarities is not None:
            figure.supxlabel("with the cosine similarity of the features", fontsize=9, color=GREY)
    return figure


def plot_projection(
    plane,
    images,
    output: str | os.PathLike,
    *,
    labels: Sequence | None = None,
    title: str = "Images by the similarity of their features",
    method: str = "t-SNE",
    value_range: tuple[float, float] | None = None,
):
    """Draw images as thumbnails at projected positions, with frames in the colours of their classes.

    Args:
        plane: (N, 2), from `project`.
        images: (N, H, W, 1 or 3).
        output: path of the PNG file.
        labels: N class names. Up to 20 classes are named at the median position of their images.
        title: title of the picture.
        method: name of the projection, for the axes.
        value_range: pixel values of black and white, as in `to_rgb`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the numbers of positions, images and labels differ.
    """
    plane, images = np.asarray(plane), to_rgb(images, value_range)
    if plane.shape != (len(images), 2) or (labels is not None and len(labels) != len(images)):
        raise ValueError(f"plane expected shape ({len(images)}, 2), and one label per image, received {plane.shape}.")
    colours = (BLUE, VERMILION, GREEN, *OTHERS[:3], "#999933", "#882255", "#44AA99", "#332288")
    classes = [] if labels is None else list(dict.fromkeys(labels))
    thumbnails = evenly_spaced(len(images), MAX_THUMBNAILS)
    with canvas(output, (9, 7.6), layout="constrained") as figure:
        from matplotlib.offsetbox import AnnotationBbox, OffsetImage

        axes = figure.subplots()
        axes.scatter(*plane.T, s=4, color=GREY, lw=0)
        zoom = 26 / max(images.shape[1:3]) * (1.6 if len(thumbnails) <= 40 else 1.0)
        for i in thumbnails:
            colour = GREY if labels is None else colours[classes.index(labels[i]) % len(colours)]
            frame = {"edgecolor": colour, "lw": 1.6, "boxstyle": "square,pad=0.06"}
            thumbnail = OffsetImage(images[i], zoom=zoom, interpolation="antialiased")
            axes.add_artist(AnnotationBbox(thumbnail, plane[i], pad=0.06, bboxprops=frame))
        for name in classes if 1 < len(classes) <= 20 else []:
            centre = np.median(plane[[label == name for label in labels]], axis=0)
            colour = colours[classes.index(name) % len(colours)]
            box = {"facecolor": "white", "edgecolor": colour, "alpha": 0.9, "boxstyle": "round,pad=0.2"}
            axes.text(*centre, shortened(name, 20), fontsize=9, weight="bold", ha="center", va="center", bbox=box,
                      color="#222222", zorder=10)  # fmt: skip
        axes.margins(0.06)
        axes.set(xlabel=f"{method}, first axis (no unit)", ylabel=f"{method}, second axis (no unit)", title=title)
        axes.tick_params(labelsize=8)
    return figure


def _short(name):
    return name.replace("encoder_block_", "block ").replace("position_embedding", "positions").replace("_", " ")
