"""For training on CPUs: the same numbers but for rounding, by cheaper gradients (benchmarks/NOTES.md has the gains).

GELU: TensorFlow runs its gradient as a dozen passes over the widest tensor of a block. Here XLA compiles the value and
the slope into one loop, in float32 whatever the type, and the backward pass multiplies by the slope it kept in place
of the input: as much memory. Biases: their gradient, a sum over all rows, is the product of a row of ones with them,
which oneDNN computes faster than TensorFlow its sum. Norms: XLA compiles each pass over their input into one loop, and
the backward pass keeps that input alone, where TensorFlow keeps up to two tensors of its size in float32. Evaluation
and exports keep the plain forms. On GPUs and TPUs XLA compiles all of a replica's gradient, and does this by itself.
"""

import math

import keras
import tensorflow as tf

from keras_vit.layers import GroupNorm, LayerNorm, MLPBlock
from keras_vit.layers.base import Biased
from keras_vit.layers.resnet import mean_of_groups

_compiled = tf.function(jit_compile=True)  # by XLA, for each shape
_SLOPE, _CUBE = math.sqrt(2.0 / math.pi), 0.044715


@tf.function(jit_compile=True, reduce_retracing=True)
def _gelu_tanh(x):
    wide = tf.cast(x, tf.float32)
    square = wide * wide
    tanh = tf.tanh(_SLOPE * wide * (1.0 + _CUBE * square))
    share = 0.5 * (1.0 + tanh)
    slope = share + 0.5 * wide * (1.0 - tanh * tanh) * _SLOPE * (1.0 + 3.0 * _CUBE * square)
    return tf.cast(wide * share, x.dtype), tf.cast(slope, x.dtype)


@tf.function(jit_compile=True, reduce_retracing=True)
def _gelu(x):
    wide = tf.cast(x, tf.float32)
    share = 0.5 * (1.0 + tf.math.erf(wide / math.sqrt(2.0)))
    slope = share + wide * tf.exp(-0.5 * wide * wide) / math.sqrt(2.0 * math.pi)
    return tf.cast(wide * share, x.dtype), tf.cast(slope, x.dtype)


@tf.custom_gradient
def gelu_tanh(x):
    """GELU by its tanh approximation; the gradient is one product."""
    value, slope = _gelu_tanh(x)
    return value, lambda gradient: gradient * slope


@tf.custom_gradient
def gelu(x):
    """GELU by the error function; the gradient is one product."""
    value, slope = _gelu(x)
    return value, lambda gradient: gradient * slope


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


def on_gpu() -> bool:
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def fuse(model: keras.Model) -> keras.Model:
    """Give a model that will be trained on CPUs the forms above, while it trains; returns the model."""
    forms = {"gelu_tanh": gelu_tanh, "gelu": gelu}
    if on_gpu() or tf.config.list_logical_devices("TPU"):
        return model
    for layer in model._flatten_layers():
        if isinstance(layer, MLPBlock):
            layer.activate_in_training = forms.get(layer.activation, layer.activate_in_training)
        elif isinstance(layer, LayerNorm):
            layer.norm_in_training = layer_norm
        elif isinstance(layer, GroupNorm):
            layer.norm_in_training = group_norm
        elif isinstance(layer, Biased):
            layer.add_bias_in_training = add_bias
    return model
