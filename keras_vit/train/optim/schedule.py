"""Learning-rate schedules."""

import dataclasses
import math

import keras
from keras import ops


def rate_at(
    step,
    base: float,
    total: int,
    decay: str = "cosine",
    warmup_steps: int = 0,
    end: float = 0.0,
    timescale: int = 10_000,
    cooldown_steps: int = 0,
):
    """Return the learning rate of an update: decay times warm-up times cool-down, as in the official code.

    `step` is the number of updates before this one; with a warm-up the rate of step 0 is 0. `base` is the highest rate
    of a run of `total` updates. The other arguments are fields of `keras_vit.train.recipe.Schedule`.
    """
    step = ops.cast(step, "float32")
    progress = ops.clip((step - warmup_steps) / max(total - warmup_steps, 1), 0.0, 1.0)
    if decay == "cosine":
        rate = base * 0.5 * (1.0 + ops.cos(math.pi * progress))
    elif decay == "linear":
        rate = end + (base - end) * (1.0 - progress)
    elif decay == "rsqrt":
        rate = base * ops.rsqrt(1.0 + ops.maximum(step - warmup_steps, 0.0) / timescale)
    else:
        rate = base * ops.ones_like(step)
    if warmup_steps:
        rate = rate * ops.minimum(1.0, step / warmup_steps)
    if cooldown_steps:
        rate = rate * ops.minimum(1.0, (total - step) / cooldown_steps)
    return rate


def fitted(schedule, total: int):
    """Return the schedule with a warm-up and a cool-down that fit into a run of `total` updates.

    A warm-up that is not shorter than the run becomes a tenth of it; a cool-down is at most as long as the rest.
    """
    warmup = schedule.warmup_steps if schedule.warmup_steps < total else total // 10
    cooldown = min(schedule.cooldown_steps, total - warmup)
    return dataclasses.replace(schedule, warmup_steps=warmup, cooldown_steps=cooldown)


def is_open_ended(schedule) -> bool:
    """Return whether the rate of a step is the same in a longer run."""
    return schedule.decay in ("constant", "rsqrt") and not schedule.cooldown_steps


class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """`rate_at` as a `LearningRateSchedule` of a run of `total` updates.

    With `head_first`, the rate is that of the head in its first steps, and the schedule covers the remaining ones. The
    attribute `schedule` is fitted to these steps.
    """

    def __init__(self, base: float, total: int, schedule, head_first=None):
        self.base, self.head_first = base, head_first
        self.begin = head_first.steps_of(total) if head_first else 0
        self.total = total - self.begin
        self.schedule = fitted(schedule, self.total)

    def __call__(self, step):
        if not self.begin:
            return rate_at(step, self.base, self.total, **dataclasses.asdict(self.schedule))
        step = ops.cast(step, "float32")
        rate = rate_at(step - self.begin, self.base, self.total, **dataclasses.asdict(self.schedule))
        return ops.where(step < self.begin, self.head_first.learning_rate, rate)
