"""Adafactor, as it trains Vision Transformers."""

import numpy as np
import tensorflow as tf

from keras_vit.train.optim.update import Update


class Adafactor(Update):
    """Second moments stored as means of rows and columns (arXiv 1804.04235), as in arXiv 2106.04560.

    It has momentum, and neither scales by the weights nor clips by block; `beta_2` bounds the decay rate.
    """

    SMALLEST = 32  # shorter axes are not averaged
    POWER = 0.8  # the decay rate of update t is 1 - t ** -0.8
    TINY = 1e-30

    def axes(self, shape) -> tuple[int, int] | None:
        """Return the two longest axes, the longest last; None where the squares are stored whole."""
        order = np.argsort(shape, kind="stable")
        if len(shape) < 2 or shape[order[-2]] < self.SMALLEST:
            return None
        return int(order[-2]), int(order[-1])

    def make_slots(self, variable):
        shape = tuple(variable.shape)
        means = (self.slot("mean", variable, self.settings.moment_dtype),) if self.settings.beta_1 else ()
        axes = self.axes(shape)
        if axes is None:
            return (self.slot("square", variable), *means)
        rows, columns = (tuple(side for i, side in enumerate(shape) if i != axis) for axis in (axes[1], axes[0]))
        return (self.slot("rows", variable, shape=rows), self.slot("columns", variable, shape=columns), *means)

    def scalars(self, count):
        return {"memory": tf.minimum(self.settings.beta_2, 1.0 - tf.pow(count, -self.POWER))}

    def step(self, gradient, variable, rate, decay, *slots):
        memory = self._shared["memory"]
        square = gradient * gradient + self.TINY
        axes = self.axes(tuple(variable.shape))
        if axes is None:
            whole, *means = slots
            update = gradient * tf.math.rsqrt(whole.assign(memory * whole + (1.0 - memory) * square))
        else:
            rows, columns, *means = slots
            short, long = axes
            rows = rows.assign(memory * rows + (1.0 - memory) * tf.reduce_mean(square, axis=long))
            columns = columns.assign(memory * columns + (1.0 - memory) * tf.reduce_mean(square, axis=short))
            place = short - 1 if short > long else short
            rows = tf.math.rsqrt(rows / tf.reduce_mean(rows, axis=place, keepdims=True))
            columns = tf.math.rsqrt(columns)
            update = gradient * tf.expand_dims(rows, long) * tf.expand_dims(columns, short)
        for mean in means:
            update = self.settings.beta_1 * tf.cast(mean, update.dtype) + (1.0 - self.settings.beta_1) * update
            mean.assign(tf.cast(update, mean.dtype))
        self.decay(variable, rate, decay)
        variable.assign_sub(rate * update)
