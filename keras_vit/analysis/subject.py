"""What the parts of a report look at.

B images, K maps, (down, across) patch grid.
"""

from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from keras_vit.analysis.plots.images import plot_attention
from keras_vit.models.model_interface import ModelInterface


@dataclass(frozen=True)
class Subject:
    """What a report looks at.

    Args:
        model: the model.
        interface: of the model.
        images: (B, H, W, C) as the model takes them, one by one of interest.
        names: of the images.
        captions: to stand at the images in pictures.
        predictions: best classes of each image, each a dict of `label` and `score`.
        crowd: (N, H, W, C), for what is a mean over many images.
        crowd_names: of the crowd; classes, where they are known.
        output: directory of the pictures.
        drawn: how many images the pictures show.
        batch_size: images that go through the model at once.
    """

    model: keras.Model
    interface: ModelInterface
    images: np.ndarray
    names: list[str]
    captions: list[str]
    predictions: list[list[dict]]
    crowd: np.ndarray
    crowd_names: list[str] | None
    output: Path
    drawn: int
    batch_size: int

    @property
    def value_range(self) -> tuple[float, float]:
        """Black and white in the images."""
        return self.interface.input_range

    def attention_picture(self, file, maps, titles, title, patch_size=None, unit="attention"):
        """Maps (B, K, down, across) over the images that are drawn."""
        plot_attention(
            self.images[: self.drawn], maps[: self.drawn], self.output / file, titles=titles, title=title, unit=unit,
            names=self.captions[: self.drawn], patch_size=patch_size, value_range=self.value_range,
        )  # fmt: skip


def rounded(values) -> list:
    """As lists for a JSON, six digits behind the point."""
    return np.round(np.asarray(values, "float64"), 6).tolist()
