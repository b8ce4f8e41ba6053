"""The evaluations of a run."""

import functools

import keras

from keras_vit.evaluate.accuracy import evaluate, evaluator
from keras_vit.evaluate.few_shot import feature_function, few_shot, replace_images
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Recipe
from keras_vit.train.strategy import Devices


class Measure:
    """Evaluates the model of a run when the recipe says so. The devices share the work."""

    def __init__(self, recipe: Recipe, model: keras.Model, data: Datasets, devices: Devices):
        self._recipe, self._model, self._data, self._devices = recipe, model, data, devices
        self._task = MaskedPatches(recipe, recipe.model.input_shape) if recipe.masked else None
        features = self._task.features(model) if self._task else feature_function(model)
        self._features = devices.gathered(replace_images(features))
        sums = self._task.sums(model) if self._task else evaluator(model, recipe.loss, recipe.evaluate.metrics)
        self._sums = devices.summed(sums)
        self._batches = {}

    @property
    def on_the_way(self) -> str:
        """The split that selects the best weights: `validation` if the recipe has one, else `test`."""
        return "test" if self._recipe.evaluate.split is None else "validation"

    def due(self, step: int) -> list[str]:
        """Return the splits to evaluate after a step, the test split last.

        With `use_best` the test split is evaluated after the run, with the best weights.
        """
        last = step == self._data.steps
        every = self._recipe.evaluate.every
        regular = bool(every) and step % (self._data.report_steps * every) == 0
        at_the_end = self._recipe.checkpoint.best or self.on_the_way == "validation"
        splits = [self.on_the_way] if regular or (last and at_the_end) else []
        tested = "test" in splits or self._recipe.checkpoint.use_best
        return splits + ["test"] if last and not tested else splits

    def __call__(self, split: str) -> dict:
        """Return the metrics of `keras_vit.evaluate.accuracy.evaluate` on a split, and the few-shot accuracies.

        For masked patch prediction `loss` and `accuracy` are means over patches; pixel targets have no accuracy.
        """
        if split not in self._batches:
            self._batches[split] = self._spread(self._evaluation, getattr(self._data, split))
        result = evaluate(self._model, self._batches[split], sums=self._sums, metrics=self._recipe.evaluate.metrics)
        if self._task and self._recipe.masked.target == "pixels":
            del result["accuracy"]
        if self._data.few_shot is not None:
            batches_of = functools.partial(self._spread, self._data.few_shot_evaluation)
            result |= few_shot(self._features, *self._data.few_shot, self._recipe.evaluate.shots, batches_of)
        return result

    def _spread(self, batches_of, examples):
        parts = functools.partial(batches_of, examples)  # of a (part, parts)
        return self._devices.spread(parts, self._recipe.data.batch_size)

    def _evaluation(self, examples, shard):
        batches = self._data.evaluation(examples, shard)
        return self._task.evaluation(batches, shard) if self._task else batches
