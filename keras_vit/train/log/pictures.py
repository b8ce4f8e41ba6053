"""Pictures of the layer outputs of a test image during training."""

import io
from importlib.util import find_spec

import keras
import numpy as np

from keras_vit.analysis.layer_outputs import layer_outputs
from keras_vit.analysis.plots.layer_outputs import plot_layer_outputs
from keras_vit.tasks.masked import finished_models
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Recipe

IMAGES = 8  # images whose tokens define the colours; the first one is drawn


class Pictures:
    """Draws the layer outputs of one test image at regular steps; see `Evaluate.pictures`.

    Raises:
        ImportError: the recipe has pictures, and Matplotlib is not installed.
    """

    def __init__(self, recipe: Recipe, model: keras.Model, data: Datasets):
        self._recipe, self._model, self._data = recipe, model, data
        self._every = recipe.evaluate.pictures
        black_and_white = np.repeat([[0.0], [255.0]], recipe.model.input_shape[2], axis=1)
        takes_pixels = recipe.model.include_preprocessing
        self._range = black_and_white if takes_pixels else data.spec.normalize(black_and_white)
        self._images = None
        if self._every and find_spec("matplotlib") is None:
            raise ImportError("evaluate.pictures needs Matplotlib, found none: pip install 'keras-vit-zoo[analysis]'.")

    def remaining(self, step: int) -> int:
        """Return the number of steps to the next picture, or to the end of the run."""
        return self._every - step % self._every if self._every else self._data.steps - step

    def is_due(self, step: int) -> bool:
        """Return whether a picture follows this step."""
        return bool(self._every) and step % self._every == 0

    def __call__(self, step: int) -> bytes:
        """Return the picture as PNG bytes."""
        if self._images is None:
            self._images = next(iter(self._data.evaluation(self._data.validation)))[0][:IMAGES].numpy()
        drawn = io.BytesIO()
        model = finished_models(self._recipe, self._model)["model.keras"]  # the encoder, in a masked run
        plot_layer_outputs(
            layer_outputs(model, self._images), drawn, name=f"test image after step {step:,}",
            value_range=self._range,
        )  # fmt: skip
        return drawn.getvalue()
