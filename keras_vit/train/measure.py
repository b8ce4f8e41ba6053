"""The evaluations of a run."""

import keras

from keras_vit.train.datasets import Datasets
from keras_vit.train.evaluate import evaluate, evaluator
from keras_vit.train.few_shot import features_of, few_shot
from keras_vit.train.masked import MaskedPatches
from keras_vit.train.recipe import Recipe


class Measure:
    """Evaluates a run's model when its recipe says so.

    Args:
        recipe: of the run.
        model: to be evaluated.
        data: of the run.
    """

    def __init__(self, recipe: Recipe, model: keras.Model, data: Datasets):
        self._recipe, self._model, self._data = recipe, model, data
        self._task = MaskedPatches(recipe, recipe.model.input_shape) if recipe.masked else None
        self._features = self._task.features(model) if self._task else features_of(model)
        own = (recipe.loss, recipe.evaluate.metrics)
        self._sums = self._task.sums(model) if self._task else evaluator(model, *own)
        self._batches = {}

    def is_due(self, step: int) -> bool:
        """Whether an evaluation follows this step, the end of an epoch."""
        every = self._recipe.evaluate.every
        return bool(every) and step // self._data.epoch_steps % every == 0

    def split(self, last: bool) -> str:
        """`test`, or `validation` where evaluations on the way have a split of their own."""
        return "test" if last or self._recipe.evaluate.split is None else "validation"

    def __call__(self, last: bool) -> dict:
        """What `keras_vit.train.evaluate.evaluate` gives, and the few-shot accuracies.

        Of masked patches `loss` and `accuracy` are means over these; pixels have no accuracy.
        """
        split = self.split(last)
        if split not in self._batches:
            batches = self._data.evaluation(getattr(self._data, split))
            self._batches[split] = self._task.evaluation(batches) if self._task else batches
        result = evaluate(self._model, self._batches[split], sums=self._sums, metrics=self._recipe.evaluate.metrics)
        if self._task and self._recipe.masked.target == "pixels":
            del result["accuracy"]
        if self._data.few_shot is not None:
            result |= few_shot(self._features, *self._data.few_shot, self._recipe.evaluate.shots, self._data.evaluation)
        return result
