"""For training on CPUs: the same numbers but for rounding, by cheaper gradients (benchmarks/NOTES.md has the gains).

GELU: TensorFlow runs its gradient as a dozen passes over the widest tensor of a block. Here XLA compiles the value and
the slope into one loop, in float32 whatever the type, and the backward pass multiplies by the slope it kept in place
of the input: as much memory. Biases: their gradient, a sum over all rows, is the product of a row of ones with them,
which oneDNN computes faster than TensorFlow its sum. Evaluation and exports keep the plain forms. Under XLA as a whole,
on GPU and TPU, the compiler does this by itself.
"""

import math

import keras
import tensorflow as tf

from keras_vit.layers import MLPBlock
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


def fuse(model: keras.Model) -> keras.Model:
    """Give a model that will be trained on CPUs the forms above, while it trains; returns the model."""
    forms = {"gelu_tanh": gelu_tanh, "gelu": gelu}
    if tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"):
        return model
    for layer in model._flatten_layers():
        if isinstance(layer, MLPBlock):
            layer.activate_in_training = forms.get(layer.activation, layer.activate_in_training)
        elif isinstance(layer, Biased):
            layer.add_bias_in_training = add_bias
    return model
