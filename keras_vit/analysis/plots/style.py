"""What every picture here shares: a canvas without pyplot, colours, and pixels made visible.

B batch, H W C image.
"""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

# Okabe & Ito's colours: told apart under every common colour blindness.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, GREY, FAINT = "#222222", "#777777", "#E4E4E4"
COLOUR_MAP = "viridis"
DPI = 150
STYLE = {
    "text.color": INK,
    "text.parse_math": False,  # a label or a file's name may hold a dollar sign, or two
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
    """Yield a Matplotlib figure of `size` inches in this room's style and save it as PNG at `output`, a path or an
    open file, afterwards, with `metadata` as its texts.

    pyplot, the user's style and their open figures are left alone.

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
        if not hasattr(output, "write"):
            Path(output).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, format="png", metadata=metadata)


def visible(images, value_range: tuple[float, float] | None = None) -> np.ndarray:
    """Images as something to look at: (B, H, W, 1 or 3) -> (B, H, W, 3) in [0, 1].

    Args:
        value_range: the values of black and white. Where None: 0..255 for integers and for anything above 2,
            -1..1 if something is negative, else 0..1.

    Raises:
        ValueError: the images are neither grey nor RGB.
    """
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or not images.size:
        raise ValueError(f"images expected shape (batch, height, width, 1 or 3), received {images.shape}.")
    if value_range is None:
        whole = images.dtype.kind in "ui"
        unit = (-1, 1) if images.min() < 0 else (0, 1)
        value_range = (0, 255) if whole or images.max() > 2 else unit  # 2: resizing may overshoot 1 a little
    black, white = value_range
    scaled = np.clip((images.astype("float32") - black) / (white - black), 0, 1)
    return np.broadcast_to(scaled, (*images.shape[:-1], 3))


def show(axes, pixels, **options):
    """Draw one picture without ticks: small ones with their pixels as squares, large ones smooth."""
    smooth = min(pixels.shape[:2]) > 64
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(pixels, interpolation="antialiased" if smooth else "nearest", **options)


def shortened(text, length: int) -> str:
    """`text` in at most `length` characters."""
    text = str(text)
    return text if len(text) <= length else text[: length - 1].rstrip(" ,") + "…"
