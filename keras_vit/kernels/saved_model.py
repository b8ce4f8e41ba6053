"""Override layers of a SavedModel so that TensorFlow runs them by oneDNN on CPUs.

D width.
"""

import keras
import numpy as np
import tensorflow as tf

from keras_vit.kernels.dispatch import plain_layer_norms
from keras_vit.kernels.split_matmuls import split_layers
from keras_vit.layers.override import Override

EPSILON = 1e-3  # TensorFlow 2.21 passes this epsilon to oneDNN's norm, whatever the graph states


def norm_overrides(model: keras.Model) -> list[Override]:
    """Return overrides of each `LayerNorm` in which TensorFlow recognises oneDNN's layer norm."""
    return [Override(layer, "norm", _layer_norm(layer)) for layer in plain_layer_norms(model) if layer.epsilon > 0]


def _layer_norm(layer):
    # NumPy arrays become constants; TensorFlow recognises no norm with variables.
    gamma, beta = (np.asarray(keras.ops.cast(weight, "float32")) for weight in (layer.gamma, layer.beta))
    scale = (EPSILON / layer.epsilon) ** 0.5

    def norm(x, *_):
        """Return `layer_norm`: (..., D) -> (..., D) in float32. After scaling the epsilon is `EPSILON`.

        Without oneDNN the rounding error grows with the ratio of the mean to the deviation.
        """
        x, last = tf.cast(x, tf.float32) * scale, [len(x.shape) - 1]
        mean = tf.reduce_mean(x, last, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), last, keepdims=True)
        factor = tf.math.rsqrt(variance + EPSILON) * tf.constant(gamma)
        return x * factor + (tf.constant(beta) - mean * factor)

    return norm


def split_variables(model: keras.Model, unsplit=()) -> dict:
    """Return `split_weights` of the layers that compute in bfloat16, in variables.

    Args:
        model: the model.
        unsplit: layers whose weights are not split.
    """
    return {
        layer: [[tf.Variable(weight, trainable=False, name=layer.name) for weight in pair] for pair in split(layer)]
        for layer, split, _ in split_layers(model, "bfloat16")
        if layer not in unsplit
    }
