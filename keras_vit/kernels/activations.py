"""GELU and its gradient on CPUs, each one XLA-compiled loop in float32. TensorFlow makes up to a dozen passes."""

import math
from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.token_sums import prefer_saved_activations, sum_over_tokens, xla_compiled

_SLOPE, _CUBE = math.sqrt(2.0 / math.pi), 0.044715


def _gelu_tanh(x):
    """Return the tanh approximation of GELU and its derivative."""
    square = x * x
    tanh = tf.tanh(_SLOPE * x * (1.0 + _CUBE * square))
    share = 0.5 * (1.0 + tanh)
    return x * share, share + 0.5 * x * (1.0 - tanh * tanh) * _SLOPE * (1.0 + 3.0 * _CUBE * square)


def _gelu(x):
    """Return exact GELU and its derivative."""
    share = 0.5 * (1.0 + tf.math.erf(x / math.sqrt(2.0)))
    return x * share, share + x * tf.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _quick_gelu(x):
    """Return x * sigmoid(1.702 x), the GELU of CLIP, and its derivative."""
    share = tf.sigmoid(1.702 * x)
    return x * share, share + 1.702 * x * share * (1.0 - share)


@xla_compiled
def _multiply(gradient, slope):
    """Multiply in float32, because TensorFlow multiplies slowly in bfloat16."""
    return tf.cast(tf.cast(gradient, tf.float32) * tf.cast(slope, tf.float32), gradient.dtype)


class Activation:
    """Activation computed in float32 by XLA-compiled loops.

    Args:
        formula: function of x in float32 that returns the value and the derivative.
    """

    def __init__(self, formula: Callable):
        self._formula = formula
        self._value = xla_compiled(self._value)
        self._value_and_slope = xla_compiled(self._value_and_slope)
        self._value_and_input_gradient = xla_compiled(self._value_and_input_gradient)

    def _at(self, x, bias):
        return self._formula(tf.cast(x, tf.float32) + tf.cast(bias, tf.float32))

    def _value(self, x, bias):
        return tf.cast(self._at(x, bias)[0], x.dtype)

    def _value_and_slope(self, x, bias=0.0):
        return tuple(tf.cast(values, x.dtype) for values in self._at(x, bias))

    def _value_and_input_gradient(self, x, bias, gradient):
        value, slope = self._at(x, bias)
        return tf.cast(value, x.dtype), tf.cast(tf.cast(gradient, tf.float32) * slope, x.dtype)

    def __call__(self, x):
        """Return the activation of `x`. The derivative is saved for the gradient, which is one pass."""

        @tf.custom_gradient
        def activation(x):
            value, slope = self._value_and_slope(x)
            return value, lambda gradient: _multiply(gradient, slope)

        return activation(x)

    def matmul(self, x, bias, kernel, recompute: bool = True):
        """Return activation(x + bias) @ kernel: (R, M), (M,) and (M, F) -> (R, F).

        With `recompute` the backward pass recomputes the activation from `x`. Otherwise, and in bfloat16 where
        `prefer_saved_activations`, the activation and its derivative are saved.
        """

        @tf.custom_gradient
        def matmul(x, bias, kernel):
            save = not recompute or x.dtype == tf.bfloat16 and prefer_saved_activations(x.shape[0])
            value, slope = self._value_and_slope(x, bias) if save else (self._value(x, bias), None)

            def gradients(gradient):
                by_value = tf.matmul(gradient, kernel, transpose_b=True)
                values, by_x = (
                    (value, _multiply(by_value, slope)) if save else self._value_and_input_gradient(x, bias, by_value)
                )
                return by_x, sum_over_tokens(by_x), tf.matmul(values, gradient, transpose_a=True)

            return value @ kernel, gradients

        return matmul(x, tf.convert_to_tensor(bias), tf.convert_to_tensor(kernel))


GELU_TANH, GELU, QUICK_GELU = Activation(_gelu_tanh), Activation(_gelu), Activation(_quick_gelu)
