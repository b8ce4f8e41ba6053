"""Build a model's graph from operations that OpenVINO fuses into its own."""

import keras
import tensorflow as tf

from keras_vit.export.serving_module import ServingModule
from keras_vit.kernels.dispatch import plain_layer_norms
from keras_vit.kernels.split_matmuls import split_overrides
from keras_vit.layers.override import Override, overriding


def openvino_function(model: keras.Model, module: ServingModule):
    """Return the graph of the `infer` of a model's module."""
    return module.function(overriding(_overrides(model), tf.compat.v1.get_default_graph)(module.infer))


def _overrides(model) -> list[Override]:
    norms = [Override(layer, "norm", _layer_norm) for layer in plain_layer_norms(model)]
    return norms + split_overrides(model, scores=_scores)


def _layer_norm(x, gamma, beta, epsilon):
    """Compute layer normalisation as OpenVINO recognises it: division by a root, and axes in a list."""
    x = tf.cast(x, tf.float32)
    deviation = x - tf.reduce_mean(x, [-1], keepdims=True)
    variance = tf.reduce_mean(tf.square(deviation), [-1], keepdims=True)
    return deviation / tf.sqrt(variance + epsilon) * gamma + beta


def _scores(query, key):
    """Compute `split_matmuls.query_key_scores` with a matmul that transposes the keys itself."""
    return tf.matmul(query, tf.transpose(key, (0, 2, 1, 3)), transpose_b=True)
