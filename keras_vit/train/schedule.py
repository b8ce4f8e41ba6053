"""The learning rate over the steps."""

import math

import keras
from keras import ops


def rate_at(step, base: float, total: int, decay: str = "cosine", warmup_steps: int = 0, end: float = 0.0):
    """Learning rate of an update: the decay times the warm-up, as in the official code.

    Args:
        step: updates done before this one, so 0 for the first, whose rate is 0 under a warm-up.
        base: the rate at its highest.
        total: updates of the whole run.
        decay: `cosine`, `linear` or `constant`.
        warmup_steps: updates over which the rate rises linearly.
        end: the rate that `linear` ends at.
    """
    step = ops.cast(step, "float32")
    progress = ops.clip((step - warmup_steps) / max(total - warmup_steps, 1), 0.0, 1.0)
    if decay == "cosine":
        rate = base * 0.5 * (1.0 + ops.cos(math.pi * progress))
    elif decay == "linear":
        rate = end + (base - end) * (1.0 - progress)
    else:
        rate = base * ops.ones_like(step)
    return rate * ops.minimum(1.0, step / warmup_steps) if warmup_steps else rate


class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """`rate_at` as an optimizer takes it.

    Args:
        base: the rate at its highest.
        total: updates of the whole run.
        schedule: a `keras_vit.train.recipe.Schedule`.

    Raises:
        ValueError: the warm-up is not shorter than the run.
    """

    def __init__(self, base: float, total: int, schedule):
        if schedule.warmup_steps >= total:
            raise ValueError(
                f"warmup_steps expected fewer than the {total} steps of the run, received {schedule.warmup_steps}."
            )
        self.base, self.total, self.schedule = base, total, schedule

    def __call__(self, step):
        shape = self.schedule
        return rate_at(step, self.base, self.total, shape.decay, shape.warmup_steps, shape.end)
