"""Show images with answers in a notebook.

B images, H W C image.
"""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit.analysis.plots.names import shortened
from keras_vit.analysis.plots.style import canvas, show_image, to_rgb
from keras_vit.preprocessing.inputs import load_image
from keras_vit.preprocessing.resize import resize_image

CELL = 2.0  # inches of an image's width
LINE = 0.17  # inches of a line of text
LETTERS = 26  # per line, under an image
MAX_SIDE = 512  # pixels of the longer side of an image file
SCREEN_DPI = 96


@dataclass(frozen=True)
class Picture:
    """A picture that a notebook shows where it is the result of a cell.

    Args:
        png: the content of a PNG file.
        figure: the `matplotlib.figure.Figure`.
    """

    png: bytes
    figure: Any

    def save(self, path: str | os.PathLike) -> None:
        """Write the PNG file."""
        Path(path).write_bytes(self.png)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the PNG and its size on the screen, as IPython reads them."""
        width, height = (round(side * SCREEN_DPI) for side in self.figure.get_size_inches())
        return self.png, {"width": width, "height": height}

    def __repr__(self) -> str:
        return f"<Picture of {len(self.png):,} bytes; .save(path) writes a PNG file>"


def show(images: Any, answers: Sequence | None = None, *, columns: int = 4) -> Picture:
    """Draw a grid of images with answers below, which a notebook shows inline.

    Args:
        images: (B, H, W, 1 or 3), one image (H, W, 1 or 3), or a list of arrays and paths of image files. Images of a
            list may differ in size. Pixels are in 0..255, -1..1 or 0..1.
        answers: B answers: texts, results of `keras_vit.predict.predict`, or rows of `decode_predictions`. Without
            `answers`, image files have their names.
        columns: number of images per row.

    Returns:
        A picture with `save(path)`, `png` and `figure`.

    Raises:
        FileNotFoundError: an image file does not exist.
        ImportError: Matplotlib is not installed.
        ValueError: the images are neither grey nor RGB, or the answers do not match the images.
    """
    pixels, names = _pixels(images)
    if not isinstance(columns, int) or columns < 1:
        raise ValueError(f"columns expected a positive int, received {columns!r}.")
    answers = names if answers is None else answers
    if isinstance(answers, str) or len(answers) != len(pixels):
        raise ValueError(f"answers expected {len(pixels)} answers, one per image, received {answers!r:.60}.")
    lines = [_lines(answer) for answer in answers]
    columns = min(columns, len(pixels))
    rows = -(-len(pixels) // columns)
    height = CELL * max(min(image.shape[0] / image.shape[1], 2.0) for image in pixels)
    text_height = 0.1 + LINE * max(len(texts) for texts in lines)
    png = io.BytesIO()
    size = (columns * (CELL + 0.15) + 0.15, rows * (height + text_height + 0.1) + 0.1)
    with canvas(png, size, layout="constrained") as figure:
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in panels:
            axes.set_axis_off()
        for image, texts, axes in zip(pixels, lines, panels, strict=False):
            axes.set_axis_on()
            show_image(axes, image)
            axes.set_anchor("N")
            axes.set_xlabel("\n".join(texts), fontsize=9, loc="left")
    return Picture(png.getvalue(), figure)


def _pixels(images) -> tuple[list[np.ndarray], list[str]]:
    """Return RGB images (H, W, 3) in [0, 1], and their names, which are empty for arrays."""
    if isinstance(images, str | os.PathLike):
        images = [images]
    elif hasattr(images, "shape"):
        images = np.asarray(images)
        batch = to_rgb(images[None] if images.ndim == 3 else images)  # one range of values for all images
        return list(batch), [""] * len(batch)
    if not len(images):
        raise ValueError("images expected one image or more, received none.")
    is_file = [isinstance(image, str | os.PathLike) for image in images]
    names = [Path(image).name if file else "" for image, file in zip(images, is_file, strict=True)]
    pixels = [_load(image) if file else np.asarray(image) for image, file in zip(images, is_file, strict=True)]
    return [to_rgb(image[None])[0] for image in pixels], names


def _load(path):
    """Return the pixels of an image file as uint8 (H, W, 3), reduced to at most 512 pixels per side."""
    image = load_image(path, (None, None, 3))
    shrink = max(image.shape[:2]) / MAX_SIDE
    if shrink > 1:
        image = resize_image(image.astype("uint8"), tuple(max(1, round(side / shrink)) for side in image.shape[:2]))
    return np.clip(np.round(image), 0, 255).astype("uint8")


def _lines(answer) -> list[str]:
    """Return the lines of text of an answer."""
    if isinstance(answer, dict):
        if answer.get("error"):
            return [shortened(f"error: {answer['error']}", LETTERS)]
        answer = [(best["label"], best["score"]) for best in answer["predictions"]]
    if not isinstance(answer, list | tuple):
        return [shortened(line, LETTERS) for line in str(answer).split("\n")]
    return [f"{shortened(name, LETTERS - 6)}, {score:.0%}" for *_, name, score in answer]
