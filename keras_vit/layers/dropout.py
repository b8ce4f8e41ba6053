"""Dropout and stochastic depth. A training loop can supply their random values."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Layer, require_rate

_uniform: contextvars.ContextVar[Callable | None] = contextvars.ContextVar("uniform", default=None)


@contextlib.contextmanager
def use_random_values(uniform: Callable | None) -> Iterator[None]:
    """Draw the random values of dropout and stochastic depth by `uniform` inside the `with`, in this thread only.

    Args:
        uniform: function (shape, dtype, seed) -> values in [0, 1) of that shape, where `seed` is a seed generator's
            state; None for Keras's own.
    """
    token = _uniform.set(uniform)
    try:
        yield
    finally:
        _uniform.reset(token)


def current_uniform() -> Callable | None:
    """Return the function of the innermost `use_random_values`, or None."""
    return _uniform.get()


def uniform(shape, seed_generator):
    """Return float32 values in [0, 1), drawn by the function of `use_random_values` or by Keras."""
    draw = _uniform.get()
    if draw is None:
        return keras.random.uniform(shape, dtype="float32", seed=seed_generator)
    return draw(shape, "float32", seed_generator.next())


@keras.saving.register_keras_serializable("keras_vit")
class Dropout(keras.layers.Dropout):
    """Keras's dropout. Inside `use_random_values`, that function draws the mask.

    Args:
        rate: share of the values to drop, in [0, 1).
    """

    def call(self, inputs, training=False):
        draw = _uniform.get()
        if draw is None or not training or self.rate == 0:
            return super().call(inputs, training=training)
        drawn = draw(ops.shape(inputs), inputs.dtype, self.seed_generator.next())
        return ops.where(drawn >= self.rate, inputs * (1 / (1 - self.rate)), 0)


class StochasticDepth(Layer):
    """Drops whole examples of a residual branch in training and rescales the others (arXiv 1603.09382).

    Args:
        rate: probability that an example's branch is dropped, in [0, 1).

    Input and output shape: (B, ...), or (B * lines, ...) if each example has `lines` consecutive entries.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.rate = require_rate("rate", rate)
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, lines=None, training=False):
        if not training or self.rate == 0:
            return x
        count = ops.shape(x)[0] if lines is None else ops.shape(x)[0] // lines
        shape = (count,) + (1,) * (len(x.shape) - 1)
        mask = ops.cast(uniform(shape, self.seed_generator) >= self.rate, x.dtype)
        if lines is not None:
            mask = ops.reshape(ops.broadcast_to(mask, (count, lines, 1)), (-1, 1, 1))
        return x * mask / (1 - self.rate)
