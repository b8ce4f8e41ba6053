"""The paper's figure 7 for any model: filters, positions, and how far attention reaches."""

import os

import keras
import numpy as np

from keras_vit.analysis.capturing import as_input, capture
from keras_vit.analysis.distance import attention_distance, even_distance
from keras_vit.analysis.plots.style import BLUE, COLOUR_MAP, GREY, VERMILION, canvas, show
from keras_vit.analysis.positions import embedding_filters, has_positions, position_similarity
from keras_vit.composed import flattened
from keras_vit.layers import EncoderBlock

MOST_PLACES = 7  # patches a side whose similarities are drawn; the paper has 7
COLUMNS = 6  # of the filters
GAP = 0.12  # between tiles, as a share of a tile and its gap


def plot_figure7(
    model: keras.Model, images, output: str | os.PathLike, *, components: int = 28, batch_size: int = 32
) -> dict:
    """Draw the paper's figure 7: filters that see the pixels, similarity of positions, attention distance by depth.

    What a model does not have is left out: a BiT has filters alone, a model without positions no grid of them.

    Args:
        model: a model of this package.
        images: (B, H, W, C) as the model takes them; the paper's attention distance is a mean over 128. None leaves
            the distance out.
        output: where the PNG goes.
        components: filters to draw.
        batch_size: images that go through the model at once.

    Returns:
        The numbers: `filters_explained` (share of the filters' variance that those drawn explain),
        `position_similarity` (down, across, down, across) and `attention_distance` (blocks, heads) in pixels, None for
        what there is not.

    Raises:
        ValueError: the images are not of the model's input shape or range.
    """
    model = flattened(model)
    filters, shares = embedding_filters(model, components)
    positions = position_similarity(model) if has_positions(model) else None
    distance = None
    if images is not None and any(isinstance(layer, EncoderBlock) for layer in model.layers):
        images = as_input(model, images)
        distance = attention_distance(model, images, batch_size)
    parts = 1 + (positions is not None) + (distance is not None)
    with canvas(output, (0.3 + 4.6 * parts, 5.2), layout="constrained") as figure:
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
        panels = iter(figure.subplots(1, parts, squeeze=False)[0])
        _filters(next(panels), filters, shares)
        if positions is not None:
            _positions(next(panels), positions)
        if distance is not None:
            one = capture(model, images[:1])
            _distance(next(panels), distance, even_distance(one.grid, one.patch_size), images.shape)
    return {
        "filters_explained": float(shares.sum()),
        "position_similarity": positions,
        "attention_distance": distance,
    }


def _filters(axes, filters, shares):
    """Each principal component as a tile, grey is zero; of one scale each, as in the paper."""
    scale = np.maximum(np.abs(filters).max(axis=(1, 2, 3), keepdims=True), 1e-12)
    tiles = 0.5 + 0.5 * filters / scale
    tiles = tiles if tiles.shape[-1] == 3 else tiles.mean(axis=-1, keepdims=True)
    rows = -(-len(tiles) // COLUMNS)
    sheet = np.ones((rows * COLUMNS, *tiles.shape[1:3], 3))
    sheet[: len(tiles)] = tiles
    _show_tiles(axes, sheet.reshape(rows, COLUMNS, *sheet.shape[1:]))
    for i, share in enumerate(shares):
        row, column = divmod(i, COLUMNS)
        axes.text(column + 0.05, row + 0.98, f"{100 * share:.2g} %", fontsize=7, va="bottom", color=GREY)
    axes.set_title(f"Filters of the first layer:\nthe first {len(filters)} principal components")
    axes.set_xlabel(f"under each its share of the filters' variance,\ntogether {shares.sum():.0%}; grey is zero")


def _positions(axes, similarity):
    """A small map of similarities to each patch, laid out where that patch lies."""
    down, across = (
        np.unique(np.linspace(0, side - 1, min(side, MOST_PLACES)).round().astype(int)) for side in similarity.shape[:2]
    )
    drawn = _show_tiles(axes, similarity[np.ix_(down, across)], cmap=COLOUR_MAP, vmax=1)
    axes.set_xticks(np.arange(len(across)) + 0.5 - GAP / 2, across + 1)
    axes.set_yticks(np.arange(len(down)) + 0.5 - GAP / 2, down + 1)
    axes.tick_params(length=0)
    axes.set(xlabel="patch's column", ylabel="patch's row", title="Similarity of the\nposition embeddings")
    bar = axes.figure.colorbar(drawn, ax=axes, location="right", shrink=0.7, aspect=25, pad=0.02)
    bar.set_label("cosine similarity", fontsize=9)
    bar.outline.set_visible(False)


def _show_tiles(axes, tiles, **options):
    """Tiles (rows, columns, h, w, ...) as one picture, one unit of the axes each, with gaps below and to the right."""
    rows, columns, height, width, *channels = tiles.shape
    repeat = max(1, round(16 / min(height, width)))  # so that a gap can be a small part of a tile
    tiles = tiles.repeat(repeat, axis=2).repeat(repeat, axis=3)
    below, beside = (max(1, round(side * repeat * GAP / (1 - GAP))) for side in (height, width))
    below *= 2 if channels else 1  # for what stands under a tile
    cell = (height * repeat + below, width * repeat + beside)
    sheet = np.full((rows, columns, *cell, *channels), 1.0 if channels else np.nan)  # white
    sheet[:, :, : height * repeat, : width * repeat] = tiles
    picture = np.moveaxis(sheet, 2, 1).reshape(rows * cell[0], columns * cell[1], *channels)
    return show(axes, picture, extent=(0, columns, rows, 0), aspect=cell[0] / cell[1], **options)


def _distance(axes, distance, even, shape):
    """A dot a head, by depth, beside what attention that is spread evenly over all patches reaches."""
    blocks, heads = distance.shape
    depth = np.arange(blocks)
    axes.scatter(np.repeat(depth, heads), distance.ravel(), s=26, color=BLUE, alpha=0.75, lw=0, label="a head")
    axes.plot(depth, distance.mean(axis=1), color=VERMILION, lw=1.5, label="mean of the heads")
    axes.axhline(even, color=GREY, lw=1, ls=(0, (4, 3)), label="spread evenly")
    axes.set(xlabel="depth (block)", ylabel="mean attention distance (pixels)")
    axes.set(xlim=(-0.5, blocks - 0.5), ylim=(0, 1.15 * max(even, float(distance.max()))))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.set_title(f"How far attention reaches,\n{shape[0]} images of {shape[1]} × {shape[2]} pixels")
