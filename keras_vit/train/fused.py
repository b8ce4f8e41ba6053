"""For training on CPUs: the same numbers but for rounding, by cheaper gradients (benchmarks/NOTES.md has the gains).

GELU and norms: XLA compiles each pass over their input into one loop, in float32 whatever the type, where TensorFlow
runs up to a dozen. Biases: their gradient, a sum over all rows, is the product of a row of ones with them, which oneDNN
computes faster than TensorFlow its sum. BiT's kernels are standardised by oneDNN's batch normalisation. Of a norm the
backward pass keeps the input alone, in wide models of attention and of GELU's product with the kernel behind it, too:
what is between is computed again. Evaluation and exports keep the plain forms. On GPUs and TPUs XLA compiles all of a
replica's gradient, and does the like by itself.
"""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from keras_vit.layers import GroupNorm, LayerNorm, MLPBlock, MultiHeadSelfAttention, StdConv
from keras_vit.layers.base import Biased
from keras_vit.layers.resnet import mean_of_groups
from keras_vit.train.recompute import computed_again
from keras_vit.train.strategy import by_xla

_compiled = tf.function(jit_compile=True)  # by XLA, for each shape
WIDE = 512  # from this width on attention and GELU are computed again, which at 768 costs nothing, at 192 a tenth
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


class Activation:
    """An activation in float32, whatever the type, by loops that XLA compiles.

    Args:
        formula: x of float32 -> its value and its slope.
    """

    def __init__(self, formula: Callable):
        self._formula = formula
        self._value = _compiled(self._value)
        self._value_and_slope = _compiled(self._value_and_slope)
        self._value_and_by_input = _compiled(self._value_and_by_input)

    def _value(self, x):
        return tf.cast(self._formula(tf.cast(x, tf.float32))[0], x.dtype)

    def _value_and_slope(self, x):
        return tuple(tf.cast(numbers, x.dtype) for numbers in self._formula(tf.cast(x, tf.float32)))

    def _value_and_by_input(self, x, gradient):
        value, slope = self._formula(tf.cast(x, tf.float32))
        return tf.cast(value, x.dtype), tf.cast(tf.cast(gradient, tf.float32) * slope, x.dtype)

    def __call__(self, x):
        """The value of each number of `x`; kept for the gradient, which is one product, is the slope in its place."""

        @tf.custom_gradient
        def activated(x):
            value, slope = self._value_and_slope(x)
            return value, lambda gradient: gradient * slope

        return activated(x)

    def product(self, x, kernel):
        """(rows, M) and (M, F) -> the values times the kernel, (rows, F); kept for the gradient are these two alone."""

        @tf.custom_gradient
        def product(x, kernel):
            def gradients(gradient):
                value, by_x = self._value_and_by_input(x, tf.matmul(gradient, kernel, transpose_b=True))
                return by_x, tf.matmul(value, gradient, transpose_a=True)

            return self._value(x) @ kernel, gradients

        return product(x, tf.convert_to_tensor(kernel))


GELU_TANH, GELU = Activation(_gelu_tanh), Activation(_gelu)


def add_bias(x, bias):
    """(..., F) and (F,) -> (..., F)."""
    return _add_bias(x, tf.convert_to_tensor(bias))


@tf.custom_gradient
def _add_bias(x, bias):
    def gradients(gradient):
        rows = tf.reshape(gradient, (-1, gradient.shape[-1]))
        ones = tf.ones((1, tf.shape(rows)[0]), rows.dtype)
        return gradient, (ones @ rows)[0]

    return tf.nn.bias_add(x, bias), gradients


@_compiled
def _normed(x, gamma, beta, epsilon: float):
    wide = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(wide, axis=-1, keepdims=True)
    deviation = wide - mean
    rate = tf.math.rsqrt(tf.reduce_mean(deviation * deviation, axis=-1, keepdims=True) + epsilon)
    return deviation * rate * gamma + beta, mean, rate


@_compiled
def _with_deviation(gradient, x, mean):
    return gradient * (tf.cast(x, tf.float32) - mean)


@_compiled
def _by_input(gradient, x, mean, rate, gamma, along, constant):
    deviation = tf.cast(x, tf.float32) - mean
    return tf.cast(rate * (tf.cast(gradient, tf.float32) * gamma - deviation * along - constant), x.dtype)


def layer_norm(x, gamma, beta, epsilon: float):
    """`keras_vit.layers.encoder.layer_norm`: (..., D) -> float32, keeping no more than `x` and two numbers a row."""
    shape, width = tf.shape(x), x.shape[-1]

    @tf.custom_gradient
    def normed(x, gamma, beta):
        rows = tf.reshape(x, (-1, width))
        y, mean, rate = _normed(rows, gamma, beta, epsilon)

        def gradients(gradient):
            gradient, column = tf.reshape(gradient, (-1, width)), gamma[:, None]
            product = _with_deviation(gradient, rows, mean)
            by_gamma = tf.matmul(rate, product, transpose_a=True)[0]
            by_beta = (tf.ones((1, tf.shape(rows)[0])) @ gradient)[0]
            along, constant = rate**2 * (product @ column) / width, (gradient @ column) / width
            by_x = _by_input(gradient, rows, mean, rate, gamma, along, constant)
            return tf.reshape(by_x, shape), by_gamma, by_beta

        return tf.reshape(y, shape), gradients

    return normed(x, gamma, beta)


def _attended_product(attend: Callable) -> Callable:
    """Attention and the product behind it, of which the inputs are kept: (B, N, 3, h, d), (D, D) -> (B * N, D)."""
    product = computed_again(lambda qkv, kernel: attend(qkv) @ kernel)
    return lambda qkv, kernel: product(qkv, tf.convert_to_tensor(kernel))


# GroupNorm's passes over a feature map of P pixels: (B, P, C) with (B, 1, C) of means and factors.


@_compiled
def _sums(x):
    return tf.reduce_sum(tf.cast(x, tf.float32), axis=1)


@_compiled
def _sums_of_squares(x, mean):
    return tf.reduce_sum(tf.square(tf.cast(x, tf.float32) - mean), axis=1)


@_compiled
def _scaled(x, mean, rate, gamma, beta):
    return tf.cast((tf.cast(x, tf.float32) - mean) * (rate * gamma) + beta, x.dtype)


@_compiled
def _sums_with(gradient, x, mean):
    gradient = tf.cast(gradient, tf.float32)
    return tf.reduce_sum(gradient, axis=1), tf.reduce_sum(gradient * (tf.cast(x, tf.float32) - mean), axis=1)


def group_norm(x, gamma, beta, epsilon: float):
    """`keras_vit.layers.resnet.group_norm`: (B, H, W, C) -> the same in the type of `x`, keeping no more than `x`."""
    shape, channels = tf.shape(x), x.shape[-1]
    pixels = tf.cast(shape[1] * shape[2], tf.float32)

    @tf.custom_gradient
    def normed(x, gamma, beta):
        x = tf.reshape(x, (shape[0], -1, channels))
        mean = mean_of_groups(_sums(x) / pixels)[:, None]
        rate = tf.math.rsqrt(mean_of_groups(_sums_of_squares(x, mean) / pixels) + epsilon)[:, None]

        def gradients(gradient):
            gradient = tf.reshape(gradient, (shape[0], -1, channels))
            of_gradient, of_product = _sums_with(gradient, x, mean)
            constant, along = (mean_of_groups(sums * gamma / pixels)[:, None] for sums in (of_gradient, of_product))
            by_x = _by_input(gradient, x, mean, rate, gamma, rate**2 * along, constant)
            by_gamma = tf.reduce_sum(of_product * rate[:, 0], axis=0)
            return tf.reshape(by_x, shape), by_gamma, tf.reduce_sum(of_gradient, axis=0)

        return tf.reshape(_scaled(x, mean, rate, gamma, beta), shape), gradients

    return normed(x, gamma, beta)


def standardized(kernel, epsilon: float, epsilon_on: str = "variance"):
    """`keras_vit.layers.resnet.standardized` with its epsilon on the variance, as batch normalisation has it."""
    filters = kernel.shape[-1]
    none, ones, zeros = tf.zeros(0), tf.ones(filters), tf.zeros(filters)
    normed, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(kernel, (-1, 1, 1, filters)), scale=ones, offset=zeros, mean=none, variance=none,
        epsilon=epsilon, is_training=True,
    )  # fmt: skip
    return tf.reshape(normed, kernel.shape)


def fuse(model: keras.Model) -> keras.Model:
    """Give a model that will be trained on CPUs the forms above, while it trains; returns the model."""
    forms = {"gelu_tanh": GELU_TANH, "gelu": GELU}
    if by_xla():
        return model
    for layer in model._flatten_layers():
        if isinstance(layer, MLPBlock) and layer.activation in forms:
            layer.activate_in_training = forms[layer.activation]
            if layer.fc2.units >= WIDE:
                layer.activated_product_in_training = forms[layer.activation].product
        elif isinstance(layer, MultiHeadSelfAttention):
            plain = not (layer.attention_dropout_rate or layer.relative_positions)  # no drawn mask, no weight inside
            if plain and layer.out.units >= WIDE:
                layer.attended_product_in_training = _attended_product(layer.attend)
        elif isinstance(layer, LayerNorm):
            layer.norm_in_training = layer_norm
        elif isinstance(layer, GroupNorm):
            layer.norm_in_training = group_norm
        elif isinstance(layer, StdConv) and layer.epsilon_on == "variance":
            layer.standardized_in_training = standardized
        elif isinstance(layer, Biased):
            layer.add_bias_in_training = add_bias
    return model
