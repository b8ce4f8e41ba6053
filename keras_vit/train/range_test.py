"""Find a learning rate by a short run whose rate rises: the range test of Smith (2017, arXiv 1506.01186)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import keras
import numpy as np
import tensorflow as tf

from keras_vit.checks import is_count, is_positive, require
from keras_vit.preprocessing.image_spec import preprocessing_of
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Average, Curriculum, Recipe
from keras_vit.train.recipe.inputs import check_sizes
from keras_vit.train.recipe.labels import check_labels
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import choose

LOWEST, HIGHEST, STEPS = 1e-6, 1.0, 100
RULE = "a tenth of the rate with the lowest smoothed loss"
DIVERGED, RECENT = 4.0, 5  # the test ends when the mean of the last five losses is four times the lowest such mean


@dataclass(frozen=True)
class RangeTest:
    """The result of a range test: the loss of each update, and its smoothed value, by learning rate.

    Args:
        rates: learning rates of the updates, rising.
        losses: losses of the training batches before each update.
        smoothed: the losses averaged over neighbouring updates.
        diverged: whether the test ended early because the loss grew.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    diverged: bool

    @property
    def best(self) -> float:
        """The rate with the lowest smoothed loss."""
        return self.rates[int(np.argmin(self.smoothed))]

    @property
    def suggestion(self) -> float | None:
        """The suggested rate by `RULE`; None if the loss never fell."""
        return None if self.best == self.rates[0] else self.best / 10


class Rising(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises exponentially from `lowest` to `highest` over `steps` updates."""

    def __init__(self, lowest: float, highest: float, steps: int):
        self.lowest, self.ratio, self.steps = lowest, highest / lowest, steps

    def __call__(self, step):
        return self.lowest * self.ratio ** (keras.ops.cast(step, "float32") / (self.steps - 1))


def find_rate(
    recipe: Recipe, data_dir: str | None = None, *, lowest: float = LOWEST, highest: float = HIGHEST,
    steps: int = STEPS, head: bool = False, strategy: str = "auto", show: Callable | None = None,
) -> RangeTest:  # fmt: skip
    """Train a recipe for a few updates with a rising learning rate. No weights are kept.

    The updates are the recipe's own, at the model's own image size, without its schedule and its moving average.

    Args:
        recipe: the recipe; its learning rate is ignored.
        data_dir: replaces the directory of the recipe's data.
        lowest, highest: the first and the last rate.
        steps: number of updates, at least 10.
        head: whether to train the head alone, as in the first phase of `HeadFirst`.
        strategy: as in `keras_vit.train.engine.train`.
        show: a function (number of updates, loss, rate) that is called after each update.

    Raises:
        ValueError: an argument is out of range, or the recipe is inconsistent.
    """
    require(is_positive(lowest), "lowest", "a positive number", lowest)
    require(is_positive(highest) and highest > lowest, "highest", f"a number above the lowest rate {lowest:g}", highest)
    require(is_count(steps, 10), "steps", "an int of at least 10", steps)
    require(recipe.masked is None or not head, "head", "false with masked patches, which have no head", head)
    check_sizes(recipe)
    check_labels(recipe)
    recipe = replace(recipe, steps=steps, curriculum=Curriculum(), head_first=None, average=Average(), nonfinite="skip")
    devices = choose(strategy, recipe.data.batch_size, recipe.optimizer.accumulate)
    data, rate = Datasets.open(recipe, data_dir), Rising(lowest, highest, steps)
    state = first_state(recipe, data.train.labels, steps, devices.strategy, data.terms, rate)
    data = replace(data, spec=preprocessing_of(state.model))
    (span,) = spans_of(recipe, steps)
    span = replace(span, head_only=head)
    run_steps = compiled_steps(recipe, state, devices.strategy, span, devices.cores, data.terms)
    batches = iter(devices.spread(data.batches(span.input_shape, 0), recipe.data.batch_size))
    losses = []
    for step in range(steps):
        run_steps(batches, tf.constant(1))
        if state.counters.skipped:  # the loss is no longer finite
            break
        losses.append(state.counters.mean_loss)
        state.counters.next_report()
        if show is not None:
            show(step + 1, losses[-1], float(rate(step)))
        if _diverged(losses):
            break
    if len(losses) < RECENT:
        raise ValueError(f"lowest expected a rate at which the loss stays finite, received {lowest:g}, where it did not"
                         f" after {len(losses)} updates.")  # fmt: skip
    rates = tuple(float(rate(step)) for step in range(len(losses)))
    return RangeTest(rates, tuple(losses), tuple(smooth(losses, steps / 40).tolist()), len(losses) < steps)


def _diverged(losses: list[float]) -> bool:
    means = np.convolve(losses, np.ones(RECENT) / RECENT, "valid") if len(losses) >= RECENT else np.ones(1)
    return bool(means[-1] > DIVERGED * means.min())


def smooth(losses, width: float) -> np.ndarray:
    """Return the Gaussian mean of each loss and its neighbours, of a deviation of `width` updates."""
    places = np.arange(len(losses))
    weights = np.exp(-0.5 * ((places[:, None] - places) / max(width, 1e-3)) ** 2)
    return (weights @ np.asarray(losses)) / weights.sum(axis=1)
