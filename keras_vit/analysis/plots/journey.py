"""The picture of how an image travels through a model."""

import os
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.journey import Journey
from keras_vit.analysis.plots.style import COLOUR_MAP, GREY, canvas, show, visible

MOST_STAGES = 8  # columns of the picture


def plot_journey(
    way: Journey,
    output: str | os.PathLike | BinaryIO,
    *,
    index: int = 0,
    patch_size: tuple[float, float] | None = None,
    name: str = "",
    value_range: tuple[float, float] | None = None,
):
    """Draw one image's way: the image, its patches, its embeddings, and by layer its tokens' lengths and colours.

    Args:
        way: of `journey`; the colours are the principal components over all of its images, so give it several.
        output: where the PNG goes, a path or an open file.
        index: which of its images.
        patch_size: pixels (height, width) of a patch; where None the way's, and the image's size divided by the
            embedding's grid where it has none.
        name: of the image.
        value_range: the images' values of black and white; see `visible`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: `index` is not one of the images, or these are neither grey nor RGB.
    """
    if not 0 <= index < len(way.images):
        raise ValueError(f"index expected one of {len(way.images)} images, received {index!r}.")
    image = visible(way.images[index : index + 1], value_range)[0]
    chosen = _chosen(way.stages)
    norms, colours = way.norms(), way.colours()
    height, width = image.shape[:2]
    cell = 1.25
    rows = cell * height / width
    top = 2.2
    size = (max(len(chosen) * (cell + 0.12), 9.2) + 0.9, top + 0.75 + 2 * (rows + 0.5) + 0.4)
    with canvas(output, size, layout="constrained") as figure:
        title = "How an image travels" + (f": {name}" if name else "")
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
        above, below = figure.subfigures(2, 1, height_ratios=(top + 0.5, 2 * (rows + 0.5) + 0.2))
        _beginning(above, way, index, image, patch_size)
        panels = below.subplots(2, len(chosen), squeeze=False)
        for column, stage in enumerate(chosen):
            length = norms[stage][index]
            drawn = show(panels[0, column], length, cmap=COLOUR_MAP)
            panels[0, column].set_title(_short(way.stages[stage]), fontsize=9, weight="normal", loc="center")
            panels[0, column].set_xlabel(f"{length.min():.3g} – {length.max():.3g}", fontsize=8)
            drawn.set_clim(length.min(), max(length.max(), length.min() + 1e-6))
            show(panels[1, column], colours[stage][index])
            down, across = colours[stage].shape[1:3]
            panels[1, column].set_xlabel(f"{down} × {across}", fontsize=8, color=GREY)
        panels[0, 0].set_ylabel("token length\n(dark: shortest,\nbright: longest)", fontsize=9)
        panels[1, 0].set_ylabel("tokens' first 3\nprincipal axes\nas R, G, B", fontsize=9)
    return figure


def _beginning(panel, way, index, image, patch_size):
    """The image, cut into patches, and what the first layers make of each patch."""
    has_patches = "embedding" in way.stages and "stem_root_pool" not in way.stages
    grid = way.maps[way.stages.index("embedding")].shape[1:3] if "embedding" in way.stages else None
    places = panel.subplots(1, 3 if grid else 1, width_ratios=(1, 1, 2.2) if grid else (1,), squeeze=False)[0]
    show(places[0], image)
    places[0].set_title(f"image, {image.shape[0]} × {image.shape[1]} pixels", fontsize=9, weight="normal")
    if grid is None:
        places[0].set_anchor("W")
        return
    cells = tuple(side / number for side, number in zip(image.shape[:2], grid, strict=True))
    patch = patch_size or way.patch_size or cells
    if has_patches:
        show(places[1], _apart(image, grid, tuple(int(side) for side in patch)))
        title = f"{grid[0]} × {grid[1]} patches of {int(patch[0])} × {int(patch[1])}"
    else:
        show(places[1], image)
        for k, (side, lines) in enumerate(zip(patch, (places[1].axhline, places[1].axvline), strict=True)):
            for line in range(1, grid[k]):
                lines(line * side - 0.5, color="white", lw=0.7)
        title = f"{grid[0]} × {grid[1]} cells of {patch[0]:g} × {patch[1]:g},\nwhich the stem looks beyond"
    places[1].set_title(title, fontsize=9, weight="normal")
    tokens = way.maps[way.stages.index("embedding")][index].reshape(grid[0] * grid[1], -1)
    limit = float(np.percentile(np.abs(tokens), 99)) or 1.0
    drawn = places[2].imshow(
        tokens, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )  # purple and orange: told apart under every common colour blindness
    places[2].set_title("patch embeddings", fontsize=9, weight="normal")
    places[2].set_xlabel("feature", fontsize=9)
    places[2].set_ylabel("patch, row by row", fontsize=9)
    places[2].tick_params(labelsize=8)
    bar = panel.colorbar(drawn, ax=places[2], aspect=14, pad=0.02, extend="both")
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _apart(image, grid, patch):
    """The patches with white gaps between them: (H, W, 3) -> a larger picture, without what no patch covers."""
    gap = max(1, round(min(patch) / 6))
    step = (patch[0] + gap, patch[1] + gap)
    sheet = np.ones((grid[0] * step[0] - gap, grid[1] * step[1] - gap, 3), "float32")
    for i in range(grid[0]):
        for j in range(grid[1]):
            cut = image[i * patch[0] : (i + 1) * patch[0], j * patch[1] : (j + 1) * patch[1]]
            sheet[i * step[0] : i * step[0] + patch[0], j * step[1] : j * step[1] + patch[1]] = cut
    return sheet


def _chosen(stages):
    """At most so many stages, first and last among them, spread evenly."""
    return np.unique(np.linspace(0, len(stages) - 1, min(MOST_STAGES, len(stages))).round().astype(int))


def _short(name):
    names = {"position_embedding": "with\npositions", "encoder_norm": "last\nnorm", "stem_root_pool": "stem\nroot"}
    named = names.get(name) or name.replace("encoder_block_", "block\n").replace("stem_", "stem\n")
    return named if "\n" in named else f"{named}\n"
