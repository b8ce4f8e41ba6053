"""The paper's figure 7 for any model: filters, positions, and how far attention reaches."""

import os

import keras
import numpy as np

from keras_vit.analysis.attention import as_input, capture
from keras_vit.analysis.distance import attention_distance, even_distance
from keras_vit.analysis.positions import embedding_filters, position_similarity
from keras_vit.analysis.style import BLUE, COLOUR_MAP, GREY, VERMILION, canvas, show
from keras_vit.layers import EncoderBlock

MOST_PLACES = 7  # patches a side whose similarities are drawn; the paper has 7
COLUMNS = 6  # of the filters


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
        ValueError: the images are not of the model's input shape.
    """
    filters, shares = embedding_filters(model, components)
    positions = distance = None
    if any(layer.name == "position_embedding" for layer in model.layers):
        positions = position_similarity(model)
    if images is not None and any(isinstance(layer, EncoderBlock) for layer in model.layers):
        images = as_input(model, images)
        distance = attention_distance(model, images, batch_size)
    parts = 1 + (positions is not None) + (distance is not None)
    with canvas(output, (0.3 + 4.6 * parts, 5.2), layout="constrained") as figure:
        figure.get_layout_engine().set(w_pad=0.025, h_pad=0.025)
        panels = iter(figure.subfigures(1, parts, squeeze=False, wspace=0.06)[0])
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


def _filters(panel, filters, shares):
    """Each principal component as a tile, grey is zero; of one scale each, as in the paper."""
    title = f"Filters of the first layer:\nthe first {len(filters)} principal components"
    panel.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    rows = -(-len(filters) // COLUMNS)
    tiles = panel.subplots(rows, COLUMNS, squeeze=False)
    for i, axes in enumerate(tiles.flat):
        axes.set_axis_off()
        if i < len(filters):
            scale = max(np.abs(filters[i]).max(), 1e-12)
            tile = 0.5 + 0.5 * filters[i] / scale
            tile = tile if tile.shape[-1] == 3 else tile.mean(axis=-1, keepdims=True)
            show(axes, np.broadcast_to(tile, (*tile.shape[:2], 3)))
            axes.set_title(f"{100 * shares[i]:.2g} %", fontsize=7, weight="normal", loc="center", pad=2, color=GREY)
    note = f"each: share of the filters' variance, together {shares.sum():.0%}; grey is zero"
    panel.supxlabel(note, fontsize=9, color=GREY)


def _positions(panel, similarity):
    """A small map of similarities to each patch, laid out where that patch lies."""
    panel.suptitle("Similarity of the\nposition embeddings", x=0.02, ha="left", fontsize=11, fontweight="bold")
    down, across = (
        np.unique(np.linspace(0, side - 1, min(side, MOST_PLACES)).round().astype(int)) for side in similarity.shape[:2]
    )
    maps = panel.subplots(len(down), len(across), squeeze=False)
    low = float(similarity.min())
    for row, axes_row in zip(down, maps, strict=True):
        for column, axes in zip(across, axes_row, strict=True):
            drawn = show(axes, similarity[row, column], cmap=COLOUR_MAP, vmin=low, vmax=1)
            if row == down[-1]:
                axes.set_xlabel(str(column + 1), fontsize=8)
            if column == across[0]:
                axes.set_ylabel(str(row + 1), fontsize=8, rotation=0, ha="right", va="center")
    panel.supxlabel("patch's column", fontsize=9)
    panel.supylabel("patch's row", fontsize=9)
    bar = panel.colorbar(drawn, ax=list(maps.flat), location="right", shrink=0.7, aspect=25, pad=0.02)
    bar.set_label("cosine similarity", fontsize=9)
    bar.outline.set_visible(False)


def _distance(panel, distance, even, shape):
    """A dot a head, by depth, beside what attention that is spread evenly over all patches reaches."""
    panel.suptitle("How far attention\nreaches", x=0.02, ha="left", fontsize=11, fontweight="bold")
    axes = panel.subplots()
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
    axes.set_title(f"{shape[0]} images of {shape[1]} × {shape[2]} pixels", fontsize=9, weight="normal", color=GREY)
