"""GELU and its gradient on CPUs, in float32 whatever the type, each pass one loop that XLA compiles.

TensorFlow runs up to a dozen (benchmarks/notes has the gains).
"""

import math
from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.rows import compiled, few_rows, sum_of_rows

_SLOPE, _CUBE = math.sqrt(2.0 / math.pi), 0.044715


def _gelu_tanh(x):
    """GELU by its tanh approximation, and its slope."""
    square = x * x
    tanh = tf.tanh(_SLOPE * x * (1.0 + _CUBE * square))
    share = 0.5 * (1.0 + tanh)
    return x * share, share + 0.5 * x * (1.0 - tanh * tanh) * _SLOPE * (1.0 + 3.0 * _CUBE * square)


def _gelu(x):
    """GELU by the error function, and its slope."""
    share = 0.5 * (1.0 + tf.math.erf(x / math.sqrt(2.0)))
    return x * share, share + x * tf.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


@compiled
def _times(gradient, slope):
    """Their product: in bfloat16 TensorFlow multiplies three times as slowly."""
    return tf.cast(tf.cast(gradient, tf.float32) * tf.cast(slope, tf.float32), gradient.dtype)


class Activation:
    """An activation in float32, whatever the type, by loops that XLA compiles.

    Args:
        formula: x of float32 -> its value and its slope.
    """

    def __init__(self, formula: Callable):
        self._formula = formula
        self._value = compiled(self._value)
        self._value_and_slope = compiled(self._value_and_slope)
        self._value_and_by_input = compiled(self._value_and_by_input)

    def _at(self, x, bias):
        return self._formula(tf.cast(x, tf.float32) + tf.cast(bias, tf.float32))

    def _value(self, x, bias):
        return tf.cast(self._at(x, bias)[0], x.dtype)

    def _value_and_slope(self, x, bias=0.0):
        return tuple(tf.cast(numbers, x.dtype) for numbers in self._at(x, bias))

    def _value_and_by_input(self, x, bias, gradient):
        value, slope = self._at(x, bias)
        return tf.cast(value, x.dtype), tf.cast(tf.cast(gradient, tf.float32) * slope, x.dtype)

    def __call__(self, x):
        """The value of each number of `x`; kept for the gradient, which is one pass, is the slope in its place."""

        @tf.custom_gradient
        def activated(x):
            value, slope = self._value_and_slope(x)
            return value, lambda gradient: _times(gradient, slope)

        return activated(x)

    def product(self, x, bias, kernel, again: bool = True):
        """(rows, M), (M,) and (M, F) -> the values of x + bias times the kernel, (rows, F).

        Kept in a graph for the gradient are `x` and the kernel alone, and the values computed `again`; else, and of
        `few_rows` in bfloat16, values and slopes in place of `x`. In float32 these are no faster.
        """

        @tf.custom_gradient
        def product(x, bias, kernel):
            keep = not again or x.dtype == tf.bfloat16 and few_rows(x.shape[0])
            value, slope = self._value_and_slope(x, bias) if keep else (self._value(x, bias), None)

            def gradients(gradient):
                by_value = tf.matmul(gradient, kernel, transpose_b=True)
                values, by_x = (value, _times(by_value, slope)) if keep else self._value_and_by_input(x, bias, by_value)
                return by_x, sum_of_rows(by_x), tf.matmul(values, gradient, transpose_a=True)

            return value @ kernel, gradients

        return product(x, tf.convert_to_tensor(bias), tf.convert_to_tensor(kernel))


GELU_TANH, GELU = Activation(_gelu_tanh), Activation(_gelu)
