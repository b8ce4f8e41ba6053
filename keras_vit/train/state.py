"""The state of a training run: model, moving average, optimizer and counters."""

import contextlib
import math
import sys
from dataclasses import dataclass

import keras
import tensorflow as tf

from keras_vit.evaluate.losses import NO_TERMS, ClassTerms
from keras_vit.models.adapt import adapt_model
from keras_vit.train.model import build_model
from keras_vit.train.optim.freeze import trained_variables
from keras_vit.train.optim.layer_decay import layer_shares
from keras_vit.train.optim.optimizer import build_optimizer
from keras_vit.train.optim.schedule import LearningRate
from keras_vit.train.optim.update import Update
from keras_vit.train.recipe import Recipe

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

FIRST_SCALE = 2.0**15  # initial loss scale of Keras's `LossScaleOptimizer`


@dataclass(frozen=True)
class State:
    """The content of a checkpoint.

    `average` is the model that is evaluated and saved: the moving average, or the model itself. `averages` are its
    variables in the order of `trained`, the variables that are not frozen. `scale` holds the loss scale and the number
    of updates since its last change; None except in float16.
    """

    model: keras.Model
    average: keras.Model
    trained: list
    averages: list
    optimizer: Update
    rate: LearningRate
    scale: tf.Variable | None
    counters: "Counters"

    def variables(self) -> dict[str, list]:
        """Return a dict of TensorFlow variables by name, for `Checkpoints`."""
        parts = {"model": self.model.variables, "optimizer": self.optimizer.variables}
        if self.average is not self.model:
            parts["average"] = self.average.variables
        own = {name: [v.value for v in part] for name, part in parts.items()}
        return {"counters": self.counters.variables, "scale": [self.scale] if self.scale is not None else [], **own}


class Counters:
    """Counters of a run that are saved in the checkpoint.

    Args:
        seconds: training time so far, in seconds.
        skipped_before: updates skipped before the last report.
        best: highest score of an evaluation, such as the accuracy; minus infinity before the first.
        waited: number of evaluations since the highest score.
        images, images_seconds: images, and their seconds, of all calls that did not compile.
        peak_memory, peak_device_memory: highest memory in bytes of any process of the run, and of a GPU.
        tally: since the last report, counted in the graph: the sum of the losses, the number of updates, and the number
            of updates whose loss or gradient was not finite.
    """

    def __init__(self):
        self.seconds, self.skipped_before, self.best = 0.0, 0.0, -math.inf
        self.images = self.images_seconds = self.peak_memory = self.peak_device_memory = self.waited = 0.0
        # Any length: older checkpoints have fewer values.
        self._saved = tf.Variable(tf.zeros(8, tf.float64), trainable=False, shape=tf.TensorShape([None]))
        with tf.device("CPU:0"):
            self.tally = tf.Variable(tf.zeros(3, tf.float64), trainable=False)
            self._first_wrong = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.variables = [
            self._saved,
            self.tally,
        ]  # `first_wrong` is not saved: a run stops there
        self.store()

    def load(self) -> None:
        """Read the counters from the variables that a checkpoint has filled."""
        self.seconds, self.skipped_before, self.best, *speed = self._saved.numpy().tolist()
        self.images, self.images_seconds, self.peak_memory, *later = speed
        self.peak_device_memory, self.waited = (*later, 0.0, 0.0)[:2]

    def store(self) -> None:
        """Write the counters to the variables that a checkpoint saves."""
        self.peak_memory = max(self.peak_memory, peak_memory())
        self.peak_device_memory = max(self.peak_device_memory, peak_device_memory())
        speed = [self.images, self.images_seconds, self.peak_memory, self.peak_device_memory, self.waited]
        self._saved.assign([self.seconds, self.skipped_before, self.best, *speed])

    def count(self, loss, made, wrong, step) -> None:
        """Count an update in the graph: its loss, 1.0 if it was made, 1.0 if it was not finite, its number from 1."""
        self.tally.assign_add(tf.cast(tf.stack([loss, made, wrong]), tf.float64))
        first = tf.convert_to_tensor(self._first_wrong)
        self._first_wrong.assign(tf.where((wrong > 0) & (first == 0), tf.cast(step, tf.int64), first))

    def next_report(self) -> None:
        """Reset the counters of a report."""
        self.skipped_before += self.skipped
        self.tally.assign(tf.zeros_like(self.tally))

    @property
    def mean_loss(self) -> float:
        """The mean loss of the updates since the last report; NaN if none was made."""
        loss, updates, _ = self.tally.numpy()
        return float(loss / updates) if updates else math.nan

    @property
    def skipped(self) -> float:
        """The number of updates since the last report that were not finite."""
        return float(self.tally.numpy()[2])

    @property
    def first_wrong(self) -> int:
        """The number, from 1, of the first update in this process that was not finite; 0 if all were."""
        return int(self._first_wrong.numpy())


def first_state(
    recipe: Recipe, labels: tuple[str, ...], steps: int, strategy, terms: ClassTerms = NO_TERMS, rate=None
) -> State:
    """Return the initial state of a run of `steps` steps, which depends only on the recipe.

    `labels` and `terms` are those of the data. `rate` replaces the recipe's learning rate.
    """
    keras.utils.set_random_seed(recipe.seed)
    with strategy.scope():
        model = build_model(recipe, labels, terms)
        if recipe.adapt is not None:
            model = adapt_model(model, recipe.adapt, recipe.model.freeze)
        average = model
        if recipe.average.decay:
            average = keras.models.clone_model(model)
            average.set_weights(model.get_weights())
        trained = trained_variables(model, recipe.model.freeze, recipe.adapt)
        averages = trained_variables(average, recipe.model.freeze, recipe.adapt)
        rate = rate or LearningRate(recipe.optimizer.learning_rate, steps, recipe.schedule, recipe.head_first)
        shares = layer_shares(model, recipe.optimizer.layer_decay)
        matmul_dtype = "float32" if recipe.precision == "float32" else "bfloat16"
        optimizer = build_optimizer(recipe.optimizer, rate, trained, shares, matmul_dtype)
        half = recipe.precision == "mixed_float16"
        scale = tf.Variable([FIRST_SCALE, 0.0], trainable=False) if half else None
    return State(model, average, trained, averages, optimizer, rate, scale, Counters())


def peak_memory() -> float:
    """Return the peak memory of this process in bytes; 0 where the system does not report it."""
    if resource is None:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def peak_device_memory() -> float:
    """Return the peak memory of TensorFlow on a GPU in bytes, the highest of all GPUs; 0 without a GPU."""
    peaks = [0.0]
    for i in range(len(tf.config.list_logical_devices("GPU"))):
        # An allocator without statistics is no reason to stop a run.
        with contextlib.suppress(ValueError, tf.errors.OpError):
            peaks.append(float(tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"]))
    return max(peaks)
