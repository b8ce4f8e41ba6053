"""How an image travels through the model in training, as pictures beside the curves."""

import io
from importlib.util import find_spec

import keras

from keras_vit.analysis.journey import journey
from keras_vit.analysis.plots.journey import plot_journey
from keras_vit.tasks.masked import finished_models
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Recipe

IMAGES = 8  # whose tokens make the colours; the first of them is drawn


class Pictures:
    """Draws the way of the same held-out image through a run's model every so many steps; see `Evaluate.pictures`.

    Args:
        recipe: of the run.
        model: to be looked at.
        data: of the run; the first images of the split of the evaluations on the way are taken.

    Raises:
        ImportError: there are to be pictures, and Matplotlib is not installed.
    """

    def __init__(self, recipe: Recipe, model: keras.Model, data: Datasets):
        self._recipe, self._model, self._data = recipe, model, data
        self._every = recipe.evaluate.pictures
        self._range = (0.0, 255.0) if recipe.model.include_preprocessing else (-1.0, 1.0)
        self._images = None
        if self._every and find_spec("matplotlib") is None:
            raise ImportError("evaluate.pictures needs Matplotlib, found none: pip install 'keras-vit-zoo[analysis]'.")

    def remaining(self, step: int) -> int:
        """Steps to the next picture, or to the end of the run without one."""
        return self._every - step % self._every if self._every else self._data.steps - step

    def is_due(self, step: int) -> bool:
        """Whether a picture follows this step."""
        return bool(self._every) and step % self._every == 0

    def __call__(self, step: int) -> bytes:
        """The picture as PNG."""
        if self._images is None:
            self._images = next(iter(self._data.evaluation(self._data.validation)))[0][:IMAGES].numpy()
        drawn = io.BytesIO()
        model = finished_models(self._recipe, self._model)["model.keras"]  # of a masked run the encoder
        plot_journey(
            journey(model, self._images), drawn, name=f"held-out image after step {step:,}",
            value_range=self._range,
        )  # fmt: skip
        return drawn.getvalue()
