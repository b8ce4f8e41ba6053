"""Shared by all plots: the canvas, colours, and conversion of images to RGB.

B batch, H W C image.
"""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from keras_vit.analysis.plots.names import set_fonts

# Okabe & Ito's colours, which are safe for colour blindness.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, GREY, FAINT = "#222222", "#777777", "#E4E4E4"
COLOUR_MAP = "viridis"
DPI = 150
STYLE = {
    "text.color": INK,
    "text.parse_math": False,  # labels and file names can contain dollar signs
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": FAINT,
}


@contextlib.contextmanager
def canvas(
    output: str | os.PathLike | BinaryIO, size: tuple[float, float], metadata: dict[str, str] | None = None, **options
):
    """Yield a Matplotlib figure, and save it as PNG after the `with`.

    pyplot, the user's style and open figures are not affected. Each text gets a font that has its characters, where
    Matplotlib knows one.

    Args:
        output: path of the PNG file, or an open file.
        size: (width, height) in inches.
        metadata: texts to store in the file.
        **options: arguments of `matplotlib.figure.Figure`.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    try:
        import matplotlib.style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Drawing needs Matplotlib, found none: pip install 'keras-vit-zoo[analysis]'.") from None
    with matplotlib.style.context(["default", STYLE]):
        figure = Figure(size, dpi=DPI, **options)
        FigureCanvasAgg(figure)
        yield figure
        set_fonts(figure)
        if not hasattr(output, "write"):
            Path(output).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, format="png", metadata=metadata)


def to_rgb(images, value_range: tuple[float, float] | None = None) -> np.ndarray:
    """Convert images to RGB in [0, 1], float32 (B, H, W, 3).

    Args:
        images: (B, H, W, 1 or 3).
        value_range: pixel values of black and white. If None: 0..255 for integers or a maximum above 2, else -1..1 if
            any value is negative, else 0..1.

    Raises:
        ValueError: the images are neither grey nor RGB.
    """
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or not images.size:
        raise ValueError(f"images expected shape (batch, height, width, 1 or 3), received {images.shape}.")
    if value_range is None:
        is_pixels = images.dtype.kind in "ui" or images.max() > 2  # 2, because resizing can overshoot 1
        value_range = (0, 255) if is_pixels else (-1, 1) if images.min() < 0 else (0, 1)
    black, white = value_range
    scaled = np.clip((images.astype("float32") - black) / (white - black), 0, 1)
    return np.broadcast_to(scaled, (*images.shape[:-1], 3))


def show_image(axes, pixels, **options):
    """Draw an image without ticks. The pixels of small images are drawn as squares."""
    smooth = min(pixels.shape[:2]) > 64
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(pixels, interpolation="antialiased" if smooth else "nearest", **options)


def evenly_spaced(count: int, limit: int) -> np.ndarray:
    """Return at most `limit` evenly spaced indices of `count` items, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(limit, count)).round().astype(int))
