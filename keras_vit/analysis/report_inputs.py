"""The inputs of a report.

B images, N sample images, H W C image, K maps, (down, across) patch grid.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import keras
import numpy as np

from keras_vit.analysis.plots.attention import plot_attention
from keras_vit.analysis.plots.names import drawable
from keras_vit.models.model_interface import ModelInterface


@dataclass(frozen=True)
class ReportInputs:
    """The model, images and options of a report.

    Args:
        model: the model.
        interface: the model's inputs and outputs.
        images: (B, H, W, C) in the model's input range.
        names: B names of the images.
        labels: names of the classes; empty without a classifier.
        predictions: the best classes of each image, as dicts with `class`, `label` and `score`.
        sample_images: (N, H, W, C), for statistics over many images.
        sample_names: N names of the sample images, usually classes; None without names.
        output: folder of the pictures.
        max_drawn: maximum number of images in a picture.
        batch_size: images per forward pass.
    """

    model: keras.Model
    interface: ModelInterface
    images: np.ndarray
    names: list[str]
    labels: list[str]
    predictions: list[list[dict]]
    sample_images: np.ndarray
    sample_names: list[str] | None
    output: Path
    max_drawn: int
    batch_size: int

    @property
    def captions(self) -> list[str]:
        """The predicted class of each image with its score; the image's name without a classifier."""
        labels, names = self.drawable_labels, drawable(self.names, "image")
        return [
            f"{labels[best[0]['class']]}, {best[0]['score']:.0%}" if best else name
            for name, best in zip(names, self.predictions, strict=True)
        ]

    @cached_property
    def drawable_labels(self) -> list[str]:
        """The names of the classes for pictures; "class 3" for a name that no font can draw."""
        return drawable(self.labels)

    @property
    def aliases(self) -> dict[str, str]:
        """Name -> its stand-in in the pictures, for the names that no font can draw."""
        shown = zip([*self.labels, *self.names], [*self.drawable_labels, *drawable(self.names, "image")], strict=True)
        samples = zip(self.sample_names or [], self.drawable_sample_names or [], strict=True)
        return {name: alias for name, alias in [*samples, *shown] if name != alias}

    @cached_property
    def drawable_sample_names(self) -> list[str] | None:
        """The names of the sample images for pictures; equal names stay equal."""
        if self.sample_names is None:
            return None
        numbers = {name: i for i, name in enumerate(self.labels)}
        known = all(name in numbers for name in self.sample_names)
        if known:
            return [self.drawable_labels[numbers[name]] for name in self.sample_names]
        distinct = list(dict.fromkeys(self.sample_names))
        shown = dict(zip(distinct, drawable(distinct, "image"), strict=True))
        return [shown[name] for name in self.sample_names]

    @property
    def value_range(self) -> np.ndarray:
        """Inputs of a black and of a white pixel, (2, C)."""
        return self.interface.inputs_of(np.repeat([[0.0], [255.0]], self.interface.input_shape[2], axis=1))

    def draw_maps(self, file, maps, titles, title, patch_size=None, unit="attention"):
        """Draw maps (B, K, down, across) over the images."""
        drawn = slice(self.max_drawn)
        plot_attention(
            self.images[drawn], maps[drawn], self.output / file, titles=titles, title=title, unit=unit,
            names=self.captions[drawn], patch_size=patch_size, value_range=self.value_range,
        )  # fmt: skip


@dataclass(frozen=True)
class PartResult:
    """The result of one part of a report.

    Args:
        values: entries of `analysis.json`.
        captions: PNG file -> caption.
        per_image: further entries of each image in `analysis.json`; None without any.
    """

    values: dict
    captions: dict[str, str]
    per_image: list[dict] | None = None


def rounded(values) -> list:
    """Convert an array to nested lists for JSON, rounded to six decimals."""
    return np.round(np.asarray(values, "float64"), 6).tolist()
