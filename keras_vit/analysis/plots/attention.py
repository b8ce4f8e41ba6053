"""Draw attention and class activation maps over images.

B batch, H W C image, K maps, (down, across) patch grid.
"""

import os
from collections.abc import Sequence

import numpy as np

from keras_vit.analysis.plots.names import shortened
from keras_vit.analysis.plots.style import COLOUR_MAP, INK, canvas, show_image, to_rgb

OUTLINE = 0.75  # level of the outlines, as a share of the colour bar
GREY_RANGE = (0.1, 0.6)  # of the image under a map: colours differ from each other on white and on black images


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
    """Draw images, and maps over them, with one colour bar per kind of map.

    A dark line with a light halo encloses values above three quarters of the colour bar.

    Args:
        images: (B, H, W, 1 or 3).
        maps: (B, K, down, across) or, with K = 1, (B, down, across), not negative. Each map is divided by its mean.
            Single maps may be all zero.
        output: path of the PNG file.
        titles: K names of the maps.
        names: B names of the images.
        title: title of the figure.
        patch_size: (height, width) of a patch in pixels; by default the image size divided by the grid.
        value_range: pixel values of black and white, as in `to_rgb`.
        unit: label of the colour bars.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: maps, titles or names do not match the images, or the images are neither grey nor RGB.
    """
    images = to_rgb(images, value_range)
    maps = _normalised_maps(maps, len(images))
    titles, names = _require_texts("titles", titles, maps.shape[1]), _require_texts("names", names, len(images))
    (height, width), grid = images.shape[1:3], maps.shape[2:]
    patch = patch_size or (height / grid[0], width / grid[1])
    horizontal = len(images) >= 3  # images side by side and maps below; else images below each other
    shape = (1 + len(titles), len(images)) if horizontal else (len(images), 1 + len(titles))
    cell = 2.1 if min(height, width) > 64 else 1.5
    size = (shape[1] * (cell + 0.1) + 1.5, shape[0] * (cell * height / width + 0.25) + (0.8 if horizontal else 1.5))
    with canvas(output, size, layout="constrained") as figure:
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
        panels = figure.subplots(*shape, squeeze=False)
        panels = panels if horizontal else panels.T  # (1 + K, B)
        for image, name, axes in zip(images, names, panels[0], strict=True):
            show_image(axes, image)
            (axes.set_title if horizontal else axes.set_ylabel)(shortened(name, 24), weight="normal")
        for k, kind in enumerate(titles):
            _draw_maps(figure, panels[k + 1], images, maps[:, k], patch, kind, unit, horizontal)
        for axes in panels.flat:
            axes.set_anchor("C" if horizontal else "N")
    return figure


def _normalised_maps(maps, count):
    """Validate maps and divide them by their means: (B, K, down, across)."""
    maps = np.asarray(maps, "float32")
    maps = maps[:, None] if maps.ndim == 3 else maps
    if maps.ndim != 4 or len(maps) != count:
        raise ValueError(f"maps expected shape ({count}, maps, down, across), received {maps.shape}.")
    if not (maps.min() >= 0 and maps.max() > 0):
        raise ValueError(
            f"maps expected values that are not negative and not all zero, received {maps.min():g} to {maps.max():g}."
        )
    return maps / np.maximum(maps.mean(axis=(2, 3), keepdims=True), 1e-30)


def _draw_maps(figure, panels, images, maps, patch, title, unit, horizontal):
    """Draw one kind of map over all images, with a colour bar."""
    top = max(2.0, float(np.quantile(maps, 0.98)))
    for image, attention, axes in zip(images, maps, panels, strict=True):
        overlay = _draw_overlay(axes, image, attention, patch, top)
    (panels[0].set_ylabel if horizontal else panels[0].set_title)(title, fontsize=11, weight="normal")
    bar = figure.colorbar(
        overlay, ax=list(panels), location="right" if horizontal else "bottom", extend="max",
        aspect=12, shrink=0.85, pad=0.02,
    )  # fmt: skip
    bar.set_label(f"{unit},\n× mean" if horizontal else f"{unit}, × mean", fontsize=9)
    bar.outline.set_visible(False)
    (bar.ax.axhline if horizontal else bar.ax.axvline)(OUTLINE * top, color=INK, lw=0.8)  # the level of the outlines


def _draw_overlay(axes, image, attention, patch, top):
    """Draw a map in colour over the grey image, and a line around its high values.

    The map covers the pixels that are in a patch.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    colours = colormaps[COLOUR_MAP](np.linspace(0, 1, 256))
    colours[:, 3] = 0.3 + 0.6 * np.linspace(0, 1, 256) ** 0.5  # low values are transparent
    height, width = image.shape[:2]
    black, white = GREY_RANGE
    grey = black + (white - black) * (image @ np.array([0.299, 0.587, 0.114], image.dtype))
    show_image(axes, np.repeat(grey[..., None], 3, axis=2), extent=(0, width, height, 0))
    covered = (0, attention.shape[1] * patch[1], attention.shape[0] * patch[0], 0)
    overlay = axes.imshow(
        attention, cmap=ListedColormap(colours), vmin=0, vmax=top, interpolation="bicubic", extent=covered,
        interpolation_stage="data",
    )  # fmt: skip
    _draw_outline(axes, attention, patch, OUTLINE * top)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return overlay


def _draw_outline(axes, attention, patch, level):
    """Draw a dark line with a light halo where a map crosses a level. The halo shows on dark images."""
    from matplotlib.patheffects import withStroke

    padded = np.pad(attention, 1, mode="edge")  # the line can also follow the border of the map
    if not padded.min() < level < padded.max():
        return
    rows, columns = (
        (np.arange(-1, count + 1) + 0.5) * side for count, side in zip(attention.shape, patch, strict=True)
    )
    lines = axes.contour(columns, rows, padded, levels=[level], colors=INK, linewidths=0.8)
    lines.set_path_effects([withStroke(linewidth=2.0, foreground="white", alpha=0.9)])


def _require_texts(argument, texts, count):
    """Return `count` texts; empty ones if `texts` is None."""
    texts = [""] * count if texts is None else list(texts)
    if len(texts) != count:
        raise ValueError(f"{argument} expected {count} texts, received {len(texts)}.")
    return texts
