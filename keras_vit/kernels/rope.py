"""The rotation of queries and keys (RoPE) on CPUs: one XLA-compiled loop. TensorFlow makes a dozen passes."""

from collections.abc import Callable
from functools import partial

import tensorflow as tf

from keras_vit.kernels.token_sums import xla_compiled
from keras_vit.layers.rope import rotate


def rotation(pairs: str) -> Callable:
    """Return a function that computes `layers.rope.rotate` for fixed angles: (x, cos, sin) -> the rotated x.

    The gradient of a rotation is the rotation by the negative angle, which needs no saved activations.
    """
    compiled = xla_compiled(partial(rotate, pairs=pairs))

    def rotated(x, cos, sin):
        @tf.custom_gradient
        def of_x(x):
            return compiled(x, cos, sin), lambda gradient: compiled(gradient, cos, -sin)

        return of_x(x)

    return rotated


ROTATIONS = {pairs: rotation(pairs) for pairs in ("neighbours", "halves")}
