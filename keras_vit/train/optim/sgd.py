"""Stochastic gradient descent with momentum."""

import tensorflow as tf

from keras_vit.kernels import updates
from keras_vit.train.optim.update import Update


class SGD(Update):
    """Momentum: m = momentum * m + gradient; variable -= rate * m, as in optax, torch and the official code."""

    def make_slots(self, variable):
        return (self.slot("momentum", variable, self.settings.moment_dtype),) if self.settings.momentum else ()

    def loop_of(self, slots):
        return self._loop if slots else None

    def _loop(self, gradient, scale, variable, rate, decay, momentum):
        handles, memory = (variable.handle, momentum.handle), self.settings.momentum
        updates.momentum(handles, gradient, scale, rate, memory, decay, momentum.dtype.name)

    def step(self, gradient, variable, rate, decay, momentum=None):
        self.decay(variable, rate, decay)
        if momentum is not None:
            gradient = self.settings.momentum * tf.cast(momentum, gradient.dtype) + gradient
            momentum.assign(tf.cast(gradient, momentum.dtype))
        variable.assign_sub(rate * gradient)
