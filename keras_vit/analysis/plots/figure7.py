"""Draw figure 7 of the ViT paper for any model: filters, position embeddings, attention distance."""

import os

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input
from keras_vit.analysis.capturing import attends_by_shares, capture
from keras_vit.analysis.distance import attention_distance, uniform_distance
from keras_vit.analysis.plots.style import BLUE, COLOUR_MAP, GREY, VERMILION, canvas, evenly_spaced, show_image
from keras_vit.analysis.positions import embedding_filters, has_positions, position_similarity
from keras_vit.composed import flattened

MAX_POSITIONS = 7  # drawn patches per side, as in the paper
FILTER_COLUMNS = 6
GAP = 0.12  # between tiles, as a fraction of tile and gap


def plot_figure7(
    model: keras.Model, images, output: str | os.PathLike, *, components: int = 28, batch_size: int = 32
) -> dict:
    """Draw figure 7 of the ViT paper: filters, similarity of position embeddings, attention distance per depth.

    Panels that a model lacks are left out; a BiT has filters only.

    Args:
        model: a model of this package.
        images: (B, H, W, C) in the model's input range, for the attention distance; the paper averages over 128. None
            leaves the distance out.
        output: path of the PNG file.
        components: number of filters to draw.
        batch_size: images per forward pass.

    Returns:
        A dict of `filters_explained` (the share of the filters' variance in the drawn components),
        `position_similarity` (down, across, down, across) and `attention_distance` (blocks, heads) in pixels. The last
        two are None if the panel is left out.

    Raises:
        ValueError: the images do not have the model's input shape or range.
    """
    model = flattened(model)
    filters, shares = embedding_filters(model, components)
    positions = position_similarity(model) if has_positions(model) else None
    distance = None
    if images is not None and attends_by_shares(model):
        images = as_model_input(model, images)
        distance = attention_distance(model, images, batch_size)
    count = 1 + (positions is not None) + (distance is not None)
    with canvas(output, (0.3 + 4.6 * count, 5.2), layout="constrained") as figure:
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
        panels = iter(figure.subplots(1, count, squeeze=False)[0])
        _draw_filters(next(panels), filters, shares)
        if positions is not None:
            _draw_positions(next(panels), positions)
        if distance is not None:
            attention = capture(model, images[:1])
            uniform = uniform_distance(attention.grid, attention.patch_size)
            _draw_distance(next(panels), distance, uniform, images.shape)
    return {
        "filters_explained": float(shares.sum()),
        "position_similarity": positions,
        "attention_distance": distance,
    }


def _draw_filters(axes, filters, shares):
    """Draw each principal component as a tile with a separate scale, as in the paper. Grey is zero."""
    scale = np.maximum(np.abs(filters).max(axis=(1, 2, 3), keepdims=True), 1e-12)
    tiles = 0.5 + 0.5 * filters / scale
    tiles = tiles if tiles.shape[-1] == 3 else tiles.mean(axis=-1, keepdims=True)
    rows = -(-len(tiles) // FILTER_COLUMNS)
    sheet = np.ones((rows * FILTER_COLUMNS, *tiles.shape[1:3], 3))
    sheet[: len(tiles)] = tiles
    _show_tiles(axes, sheet.reshape(rows, FILTER_COLUMNS, *sheet.shape[1:]))
    for i, share in enumerate(shares):
        row, column = divmod(i, FILTER_COLUMNS)
        axes.text(column + 0.05, row + 0.98, f"{100 * share:.2g} %", fontsize=7, va="bottom", color=GREY)
    axes.set_title(f"Filters of the first layer:\nthe first {len(filters)} principal components")
    axes.set_xlabel(f"percent: share of the filters' variance,\n{shares.sum():.0%} in total; grey is zero")


def _draw_positions(axes, similarity):
    """Draw a map of similarities for each patch, at the position of the patch."""
    down, across = (evenly_spaced(side, MAX_POSITIONS) for side in similarity.shape[:2])
    picture = _show_tiles(axes, similarity[np.ix_(down, across)], cmap=COLOUR_MAP, vmax=1)
    axes.set_xticks(np.arange(len(across)) + 0.5 - GAP / 2, across + 1)
    axes.set_yticks(np.arange(len(down)) + 0.5 - GAP / 2, down + 1)
    axes.tick_params(length=0)
    axes.set(xlabel="patch's column", ylabel="patch's row", title="Similarity of the\nposition embeddings")
    bar = axes.figure.colorbar(picture, ax=axes, location="right", shrink=0.7, aspect=25, pad=0.02)
    bar.set_label("cosine similarity", fontsize=9)
    bar.outline.set_visible(False)


def _show_tiles(axes, tiles, **options):
    """Draw tiles (rows, columns, h, w, ...) with gaps. A tile and its gap have the size 1 in data coordinates."""
    rows, columns, height, width, *channels = tiles.shape
    repeat = max(1, round(16 / min(height, width)))  # a gap can be smaller than a pixel
    tiles = tiles.repeat(repeat, axis=2).repeat(repeat, axis=3)
    gap_below, gap_right = (max(1, round(side * repeat * GAP / (1 - GAP))) for side in (height, width))
    gap_below *= 2 if channels else 1  # room for a text
    cell = (height * repeat + gap_below, width * repeat + gap_right)
    sheet = np.full((rows, columns, *cell, *channels), 1.0 if channels else np.nan)  # white
    sheet[:, :, : height * repeat, : width * repeat] = tiles
    picture = np.moveaxis(sheet, 2, 1).reshape(rows * cell[0], columns * cell[1], *channels)
    return show_image(axes, picture, extent=(0, columns, rows, 0), aspect=cell[0] / cell[1], **options)


def _draw_distance(axes, distance, uniform, shape):
    """Draw the mean attention distance of each head by depth, and the distance of uniform attention."""
    blocks, heads = distance.shape
    depth = np.arange(blocks)
    axes.scatter(np.repeat(depth, heads), distance.ravel(), s=26, color=BLUE, alpha=0.75, lw=0, label="one head")
    axes.plot(depth, distance.mean(axis=1), color=VERMILION, lw=1.5, label="mean of the heads")
    axes.axhline(uniform, color=GREY, lw=1, ls=(0, (4, 3)), label="uniform attention")
    axes.set(xlabel="depth (block)", ylabel="mean attention distance (pixels)")
    axes.set(xlim=(-0.5, blocks - 0.5), ylim=(0, 1.15 * max(uniform, float(distance.max()))))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.set_title(f"Attention distance,\n{shape[0]} images of {shape[1]} × {shape[2]} pixels")
