"""A model's layers in the forms that TensorFlow gives to oneDNN where it runs a SavedModel on a CPU.

D width.
"""

import keras
import numpy as np
import tensorflow as tf

from keras_vit.layers.layernorm import usual_norms
from keras_vit.layers.parted import parted_layers

EPSILON = 1e-3  # of the norms that TensorFlow 2.21 makes of what it finds, whatever epsilon the graph has


def norm_forms(model: keras.Model) -> list:
    """(layer, its norm) of each `LayerNorm` that has the usual one: a form in which TensorFlow finds oneDNN's."""
    return [(layer, _norm_of(layer)) for layer in usual_norms(model) if layer.epsilon > 0]


def _norm_of(layer):
    # NumPy's arrays, of which a graph makes constants: it finds no norm by variables.
    gamma, beta = (np.asarray(keras.ops.cast(weight, "float32")) for weight in (layer.gamma, layer.beta))
    scale = (EPSILON / layer.epsilon) ** 0.5

    def norm(x, *_):
        """`layer_norm`: (..., D) -> (..., D) in float32. Of numbers times `scale` the epsilon is `EPSILON`.

        Where there is no oneDNN, numbers whose mean is many times their deviation lose as many times the rounding.
        """
        x, last = tf.cast(x, tf.float32) * scale, [len(x.shape) - 1]
        mean = tf.reduce_mean(x, last, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), last, keepdims=True)
        factor = tf.math.rsqrt(variance + EPSILON) * tf.constant(gamma)
        return x * factor + (tf.constant(beta) - mean * factor)

    return norm


def kernels_in_parts(model: keras.Model, whole=()) -> dict:
    """`parted_kernels` of the layers that compute in bfloat16, in variables.

    Args:
        model: whose attention and MLPs are looked at.
        whole: layers that are not to come in parts.
    """
    return {
        layer: [[tf.Variable(weight, trainable=False, name=layer.name) for weight in pair] for pair in cut(layer)]
        for layer, cut, _ in parted_layers(model, "bfloat16")
        if layer not in whole
    }
