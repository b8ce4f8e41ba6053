"""The evaluations of a run."""

import functools
import math

import keras

from keras_vit.evaluate.accuracy import (
    evaluate,
    evaluate_regression,
    evaluator,
    logits_model,
    regression_sums,
)
from keras_vit.evaluate.few_shot import feature_function, few_shot, replace_images
from keras_vit.evaluate.multi_label import DEFAULT, f1_thresholds, gather, label_metrics, score_function
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train.datasets import Datasets
from keras_vit.train.log.figures import figures_of
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.labels import selecting_metric
from keras_vit.train.strategy import Devices


class Measure:
    """Evaluates the model of a run when the recipe says so. The devices share the work."""

    def __init__(self, recipe: Recipe, model: keras.Model, data: Datasets, devices: Devices):
        self._recipe, self._model, self._data, self._devices = recipe, model, data, devices
        self._task = MaskedPatches(recipe, recipe.model.input_shape) if recipe.masked else None
        features = self._task.features(model) if self._task else feature_function(model)
        self._features = devices.gathered(replace_images(features))
        soft = data.test.kind == "probabilities"
        if recipe.loss.is_regression:
            sums = regression_sums(model, recipe.loss)
        elif self._task:
            sums = self._task.sums(model)
        else:
            sums = evaluator(model, recipe.loss, recipe.evaluate.metrics, soft=soft)
        self._sums = devices.summed(sums)
        self._scores = None
        if "mean_average_precision" in recipe.evaluate.metrics:
            self._scores = devices.gathered(score_function(logits_model(model)))
        self._batches = {}

    @property
    def on_the_way(self) -> str:
        """The split that selects the best weights: `validation` if the recipe has one, else `test`."""
        return "test" if self._recipe.evaluate.split is None else "validation"

    @property
    def better(self) -> str:
        """What a better evaluation has, such as `higher accuracy`."""
        name, sign = selecting_metric(self._recipe)
        return f"{'higher' if sign > 0 else 'lower'} {name.replace('_', ' ')}"

    def best(self, score: float) -> str:
        """Return a score as the metric that it is, such as `accuracy 91.30%`; an empty text before the first."""
        name, sign = selecting_metric(self._recipe)
        share = sign > 0 and name != "kappa"  # older checkpoints have -1 before the first evaluation
        return figures_of({name: sign * score})[0] if math.isfinite(score) and not (share and score < 0) else ""

    def score(self, result: dict) -> float:
        """Return the value of an evaluation that selects the best weights; higher is better."""
        name, sign = selecting_metric(self._recipe)
        return sign * result[name]

    @property
    def thresholds(self) -> dict:
        """The `thresholds` of the labels for the summary; nothing with one class per image."""
        return {} if self._scores is None else {"thresholds": list(self._model.get_layer("head").thresholds)}

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

        A regression has those of `evaluate_regression` instead. With several labels per image,
        `keras_vit.evaluate.multi_label.label_metrics` adds its metrics. For masked patch prediction `loss` and
        `accuracy` are means over patches; pixel targets have no accuracy.
        """
        recipe, batches = self._recipe, self._batches_of(split)
        if recipe.loss.is_regression:
            return evaluate_regression(self._model, batches, recipe.loss, self._sums)
        result = evaluate(self._model, batches, sums=self._sums, metrics=recipe.evaluate.metrics)
        if self._task and recipe.masked.target == "pixels":
            del result["accuracy"]
        if self._scores is not None:
            result |= self._of_labels(split)
        if self._data.few_shot is not None:
            batches_of = functools.partial(self._spread, self._data.few_shot_evaluation)
            result |= few_shot(self._features, *self._data.few_shot, recipe.evaluate.shots, batches_of)
        return result

    def _of_labels(self, split: str) -> dict:
        """Return the metrics of several labels per image, and store the thresholds in the model.

        The thresholds are chosen on the validation split. Without one, they are 0.5.
        """
        hot, scores = gather(self._scores, self._batches_of(split))
        head = self._model.get_layer("head")
        if self.on_the_way == "test":
            head.thresholds = (DEFAULT,) * scores.shape[1]
        elif split == "validation":
            head.thresholds = f1_thresholds(hot, scores)
        elif head.thresholds is None:  # the run resumed after its last evaluation on the validation split
            head.thresholds = f1_thresholds(*gather(self._scores, self._batches_of("validation")))
        return label_metrics(hot, scores, head.thresholds)

    def take_thresholds(self, model: keras.Model) -> None:
        """Use the thresholds of another model from now on, if an image has several labels."""
        if self._scores is not None:
            self._model.get_layer("head").thresholds = model.get_layer("head").thresholds

    def _batches_of(self, split: str):
        if split not in self._batches:
            self._batches[split] = self._spread(self._evaluation, getattr(self._data, split))
        return self._batches[split]

    def _spread(self, batches_of, examples):
        parts = functools.partial(batches_of, examples)  # of a (part, parts)
        return self._devices.spread(parts, self._recipe.data.batch_size)

    def _evaluation(self, examples, shard):
        batches = self._data.evaluation(examples, shard)
        return self._task.evaluation(batches, shard) if self._task else batches
