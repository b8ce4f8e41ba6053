"""All that a training run changes: model, average, optimizer, and the run's own counters."""

import contextlib
import math
import sys
from dataclasses import dataclass

import keras
import tensorflow as tf

from keras_vit.train.model import build_model
from keras_vit.train.optim.freeze import trained_variables
from keras_vit.train.optim.optimizer import Update, build_optimizer, layer_shares
from keras_vit.train.optim.schedule import LearningRate
from keras_vit.train.recipe import Recipe

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

FIRST_SCALE = 2.0**15  # of the loss in half precision, as Keras's `LossScaleOptimizer` begins


@dataclass(frozen=True)
class State:
    """What a checkpoint holds.

    Args:
        model: that is trained.
        average: that is evaluated and saved: the moving average of the model, or the model itself.
        trained: the model's variables that move: all that are not frozen.
        averages: the average's variables, in the same order.
        optimizer: knows the step, too.
        rate: the learning rate over the steps.
        scale: of the loss, and updates since it was last changed; None in other precisions than float16.
        counters: what the run itself counts.
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
        """Name -> TensorFlow variables, as `Checkpoints` takes them."""
        parts = {"model": self.model.variables, "optimizer": self.optimizer.variables}
        if self.average is not self.model:
            parts["average"] = self.average.variables
        own = {name: [v.value for v in part] for name, part in parts.items()}
        return {"counters": self.counters.variables, "scale": [self.scale] if self.scale is not None else [], **own}


class Counters:
    """Numbers of a run that outlive it in the checkpoint.

    Args:
        seconds: of training so far.
        skipped_before: updates left out before the last report.
        best: the highest accuracy of an evaluation; -1 before the first.
        images: that the speed of the run is of, so without those of calls that compiled.
        images_seconds: that these took.
        peak_memory: in bytes, of this process on the host or of one that the run was stopped in.
        peak_device_memory: the same of the GPU that held most; 0 where there was none.
        tally: since the last report, which the steps themselves count: the sum of the losses, the updates these are
            of, and those whose loss or gradient was not finite.
    """

    def __init__(self):
        self.seconds, self.skipped_before, self.best = 0.0, 0.0, -1.0
        self.images = self.images_seconds = self.peak_memory = self.peak_device_memory = 0.0
        # Of any length: checkpoints from before the last number was kept have one less.
        self._kept = tf.Variable(tf.zeros(7, tf.float64), trainable=False, shape=tf.TensorShape([None]))
        with tf.device("CPU:0"):
            self.tally = tf.Variable(tf.zeros(3, tf.float64), trainable=False)
            self._first_wrong = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.variables = [self._kept, self.tally]  # a run that stops at a wrong update saves no state behind it
        self.store()

    def load(self) -> None:
        """Take over what a checkpoint filled the variables with."""
        self.seconds, self.skipped_before, self.best, *speed = self._kept.numpy().tolist()
        self.images, self.images_seconds, self.peak_memory, *device = speed
        self.peak_device_memory = device[0] if device else 0.0

    def store(self) -> None:
        """Put the numbers where a checkpoint takes them from."""
        self.peak_memory = max(self.peak_memory, peak_memory())
        self.peak_device_memory = max(self.peak_device_memory, peak_device_memory())
        speed = [self.images, self.images_seconds, self.peak_memory, self.peak_device_memory]
        self._kept.assign([self.seconds, self.skipped_before, self.best, *speed])

    def count(self, loss, made, wrong, step) -> None:
        """Count an update, in the compiled steps.

        Args:
            loss: of the update.
            made: 1.0 where it was made.
            wrong: 1.0 where its loss or gradient was not finite.
            step: its number, from 1.
        """
        self.tally.assign_add(tf.cast(tf.stack([loss, made, wrong]), tf.float64))
        first = tf.convert_to_tensor(self._first_wrong)
        self._first_wrong.assign(tf.where((wrong > 0) & (first == 0), tf.cast(step, tf.int64), first))

    def next_report(self) -> None:
        """Begin to count anew."""
        self.skipped_before += self.skipped
        self.tally.assign(tf.zeros_like(self.tally))

    @property
    def mean_loss(self) -> float:
        """Of the updates since the last report; not a number where none was made."""
        loss, updates, _ = self.tally.numpy()
        return float(loss / updates) if updates else math.nan

    @property
    def skipped(self) -> float:
        """Updates since the last report that were not finite."""
        return float(self.tally.numpy()[2])

    @property
    def first_wrong(self) -> int:
        """Number, from 1, of the first update in this process that was not finite; 0 where all were."""
        return int(self._first_wrong.numpy())


def first_state(recipe: Recipe, labels: tuple[str, ...], steps: int, strategy) -> State:
    """The state that a run starts from: the same one for the same seed.

    Args:
        recipe: of the run.
        labels: names of the classes.
        steps: of the whole run.
        strategy: to make the variables in.
    """
    keras.utils.set_random_seed(recipe.seed)
    with strategy.scope():
        model = average = build_model(recipe, labels)
        if recipe.average.decay:
            average = keras.models.clone_model(model)
            average.set_weights(model.get_weights())
        trained = trained_variables(model, recipe.model.freeze)
        averages = trained_variables(average, recipe.model.freeze)
        rate = LearningRate(recipe.optimizer.learning_rate, steps, recipe.schedule)
        shares = layer_shares(model, recipe.optimizer.layer_decay)
        products = "float32" if recipe.precision == "float32" else "bfloat16"
        optimizer = build_optimizer(recipe.optimizer, rate, trained, shares, products)
        half = recipe.precision == "mixed_float16"
        scale = tf.Variable([FIRST_SCALE, 0.0], trainable=False) if half else None
    return State(model, average, trained, averages, optimizer, rate, scale, Counters())


def peak_memory() -> float:
    """Bytes that this process held at most; 0 where the system does not say."""
    if resource is None:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def peak_device_memory() -> float:
    """Bytes that TensorFlow held at most on the GPU of this process that held most; 0 where there is none."""
    peaks = [0.0]
    for i in range(len(tf.config.list_logical_devices("GPU"))):
        # An allocator without statistics stops no run.
        with contextlib.suppress(ValueError, tf.errors.OpError):
            peaks.append(float(tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"]))
    return max(peaks)
