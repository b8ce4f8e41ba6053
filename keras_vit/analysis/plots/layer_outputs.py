"""Draw the layer outputs of one image.

H W C image, (down, across) grid.
"""

import os
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.layer_outputs import LayerOutputs
from keras_vit.analysis.plots.style import COLOUR_MAP, GREY, canvas, evenly_spaced, show_image, to_rgb

MAX_LAYERS = 8  # columns of the picture
CELL = 1.25  # inches of a map's width
TOP = 2.2  # inches of the row with the image and its patches


def plot_layer_outputs(
    outputs: LayerOutputs,
    output: str | os.PathLike | BinaryIO,
    *,
    index: int = 0,
    patch_size: tuple[float, float] | None = None,
    name: str = "",
    value_range: tuple[float, float] | None = None,
):
    """Draw an image, its patches and patch embeddings, and the token norms and principal components of its layers.

    Args:
        outputs: the result of `layer_outputs`. The components are computed over all of its images, so several are
            better than one.
        output: path of the PNG file, or an open file.
        index: index of the drawn image.
        patch_size: (height, width) of a patch in pixels; by default `outputs.patch_size`, else the image size divided
            by the grid.
        name: name of the image.
        value_range: pixel values of black and white, as in `to_rgb`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: `index` is out of range, or the images are neither grey nor RGB.
    """
    if not 0 <= index < len(outputs.images):
        raise ValueError(f"index expected one of {len(outputs.images)} images, received {index!r}.")
    image = to_rgb(outputs.images[index : index + 1], value_range)[0]
    layers = evenly_spaced(len(outputs.layers), MAX_LAYERS)
    height = CELL * image.shape[0] / image.shape[1]
    size = (max(len(layers) * (CELL + 0.12), 9.2) + 0.9, TOP + 0.75 + 2 * (height + 0.5) + 0.4)
    with canvas(output, size, layout="constrained") as figure:
        title = "Layer outputs" + (f": {name}" if name else "")
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
        above, below = figure.subfigures(2, 1, height_ratios=(TOP + 0.5, 2 * (height + 0.5) + 0.2))
        _draw_embedding(above, outputs, index, image, patch_size)
        _draw_layers(below.subplots(2, len(layers), squeeze=False), outputs, index, layers)
    return figure


def _draw_layers(panels, outputs, index, layers):
    """Draw the token norms and the principal components, one column per layer."""
    norms, colours = outputs.norms(), outputs.colours()
    for column, layer in enumerate(layers):
        norm = norms[layer][index]
        picture = show_image(panels[0, column], norm, cmap=COLOUR_MAP)
        panels[0, column].set_title(_short(outputs.layers[layer]), fontsize=9, weight="normal", loc="center")
        panels[0, column].set_xlabel(f"{norm.min():.3g} – {norm.max():.3g}", fontsize=8)
        picture.set_clim(norm.min(), max(norm.max(), norm.min() + 1e-6))
        show_image(panels[1, column], colours[layer][index])
        down, across = colours[layer].shape[1:3]
        panels[1, column].set_xlabel(f"{down} × {across}", fontsize=8, color=GREY)
    panels[0, 0].set_ylabel("token norm\n(dark: smallest,\nbright: largest)", fontsize=9)
    panels[1, 0].set_ylabel("first 3 principal\ncomponents\nas R, G, B", fontsize=9)


def _draw_embedding(figure, outputs, index, image, patch_size):
    """Draw the image, its patches and their embeddings; the image only without patches."""
    embedding = outputs.maps[outputs.layers.index("embedding")] if "embedding" in outputs.layers else None
    widths = (1,) if embedding is None else (1, 1, 2.2)
    panels = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    show_image(panels[0], image)
    panels[0].set_title(f"image, {image.shape[0]} × {image.shape[1]} pixels", fontsize=9, weight="normal")
    if embedding is None:
        panels[0].set_anchor("W")
        return
    grid = embedding.shape[1:3]
    cell_size = tuple(side / number for side, number in zip(image.shape[:2], grid, strict=True))
    has_stem = "stem_root_pool" in outputs.layers
    _draw_patches(panels[1], image, grid, patch_size or outputs.patch_size or cell_size, has_stem)
    tokens = embedding[index].reshape(grid[0] * grid[1], -1)
    limit = float(np.percentile(np.abs(tokens), 99)) or 1.0
    picture = panels[2].imshow(
        tokens, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )  # a colour map that is safe for colour blindness
    panels[2].set_title("patch embeddings", fontsize=9, weight="normal")
    panels[2].set_xlabel("feature", fontsize=9)
    panels[2].set_ylabel("patch, row by row", fontsize=9)
    panels[2].tick_params(labelsize=8)
    bar = figure.colorbar(picture, ax=panels[2], aspect=14, pad=0.02, extend="both")
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _draw_patches(axes, image, grid, patch, has_stem):
    """Draw the patches with gaps, or with a stem, the image with grid lines."""
    if has_stem:
        show_image(axes, image)
        for k, (side, draw_line) in enumerate(zip(patch, (axes.axhline, axes.axvline), strict=True)):
            for line in range(1, grid[k]):
                draw_line(line * side - 0.5, color="white", lw=0.7)
        title = f"{grid[0]} × {grid[1]} cells of {patch[0]:g} × {patch[1]:g};\nthe stem's receptive field is larger"
    else:
        show_image(axes, _with_gaps(image, grid, tuple(int(side) for side in patch)))
        title = f"{grid[0]} × {grid[1]} patches of {int(patch[0])} × {int(patch[1])}"
    axes.set_title(title, fontsize=9, weight="normal")


def _with_gaps(image, grid, patch):
    """Return a larger picture with white gaps between the patches. Pixels outside the grid are dropped."""
    gap = max(1, round(min(patch) / 6))
    step = (patch[0] + gap, patch[1] + gap)
    picture = np.ones((grid[0] * step[0] - gap, grid[1] * step[1] - gap, 3), "float32")
    for i in range(grid[0]):
        for j in range(grid[1]):
            pixels = image[i * patch[0] : (i + 1) * patch[0], j * patch[1] : (j + 1) * patch[1]]
            picture[i * step[0] : i * step[0] + patch[0], j * step[1] : j * step[1] + patch[1]] = pixels
    return picture


def _short(name):
    names = {"position_embedding": "with\npositions", "encoder_norm": "last\nnorm", "stem_root_pool": "stem\nroot"}
    label = names.get(name) or name.replace("encoder_block_", "block\n").replace("stem_", "stem\n")
    return label if "\n" in label else f"{label}\n"
