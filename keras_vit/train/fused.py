"""For training on CPUs: the same numbers but for rounding, by cheaper gradients (benchmarks/NOTES.md has the gains).

GELU: TensorFlow runs its gradient as a dozen passes over the widest tensor of a block. Here XLA compiles the value and
the slope into one loop, in float32 whatever the type, and the backward pass multiplies by the slope it kept in place
of the input: as much memory. Biases: their gradient, a sum over all rows, is the product of a row of ones with them,
which oneDNN computes faster than TensorFlow its sum. LayerNorm: the backward pass keeps its input, or as much, in
place of two tensors of its size in float32 that TensorFlow keeps, and sums by products. Evaluation and exports keep the
plain forms. On GPUs and TPUs XLA compiles all of a replica's gradient, and does this by itself.
"""

import math

import keras
import tensorflow as tf

from keras_vit.layers import LayerNorm, MLPBlock
from keras_vit.layers.base import Biased

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


def layer_norm(x, gamma, beta, epsilon: float):
    """`keras_vit.layers.encoder.layer_norm`: (..., D) -> float32, keeping no more than `x` and two numbers a row."""

    @tf.custom_gradient
    def normed(x, gamma, beta):
        wide = tf.cast(x, tf.float32)
        mean = tf.reduce_mean(wide, axis=-1, keepdims=True)
        deviation = wide - mean
        scale = tf.math.rsqrt(tf.reduce_mean(deviation * deviation, axis=-1, keepdims=True) + epsilon)

        def gradients(gradient):
            width = gradient.shape[-1]
            rows, of_row = tf.reshape(gradient, (-1, width)), tf.reshape(scale, (-1, 1))
            # TensorFlow merges what both passes compute alike, and keeps it: as much as x in float32, else more.
            with tf.control_dependencies([] if x.dtype == tf.float32 else [gradient]):
                deviation = tf.reshape(tf.cast(x, tf.float32) - mean, (-1, width))
            product, column = rows * deviation, gamma[:, None]
            by_gamma = tf.matmul(of_row, product, transpose_a=True)[0]
            by_beta = (tf.ones((1, tf.shape(rows)[0])) @ rows)[0]
            along = of_row * of_row * (product @ column) / width
            by_x = of_row * (rows * gamma - (rows @ column) / width - deviation * along)
            return tf.cast(tf.reshape(by_x, tf.shape(x)), x.dtype), by_gamma, by_beta

        return deviation * scale * gamma + beta, gradients

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
        elif isinstance(layer, Biased):
            layer.add_bias_in_training = add_bias
    return model
