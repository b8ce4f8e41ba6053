"""GELU for training on CPUs: value and slope in one compiled pass, so that its gradient is one product.

TensorFlow runs GELU's gradient as a dozen passes over the widest tensor of a block. Here XLA compiles the value and
the slope into one loop, in float32 whatever the type, and the backward pass multiplies by the slope it kept in place
of the input: as much memory, and the same numbers but for rounding (benchmarks/README.md has the gain). Evaluation
and exports keep the plain form. Under XLA as a whole, on GPU and TPU, the compiler does this by itself.
"""

import math

import keras
import tensorflow as tf

from keras_vit.layers import MLPBlock

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


def fuse(model: keras.Model) -> keras.Model:
    """Give every MLP of a model that will be trained on CPUs the forms above, while it trains; returns the model."""
    forms = {"gelu_tanh": gelu_tanh, "gelu": gelu}
    if not tf.config.list_logical_devices("GPU") and not tf.config.list_logical_devices("TPU"):
        for layer in model._flatten_layers():
            if isinstance(layer, MLPBlock):
                layer.activate_in_training = forms.get(layer.activation, layer.activate_in_training)
    return model
