"""Cheaper gradients for training on CPUs; they differ from the plain layers by rounding alone.

GELU, ReLU and the norms are loops that XLA compiles. The gradient of a bias, a sum over tokens, is computed as a matrix
product with a row of ones. Matrix products with a bias are slow with AMX: GELU's loop adds the bias of an MLP's first
layer, and the loop that splits query, key and value adds attention's. A 1 x 1 convolution is a matrix product. The
gradient of attention is in `training_attention.py`.

The backward pass of a norm keeps only its input. Wide models do the same for attention, and for GELU with the matrix
product after it; few tokens keep their activations. Evaluation and exports use the plain layers. On GPUs and TPUs XLA
compiles the gradient of a whole replica, and these overrides are not used.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.rows import sum_of_rows
from keras_vit.layers import MLPBlock, MultiHeadSelfAttention
from keras_vit.layers.base import flatten_tokens, unflatten_tokens


def add_bias(x, bias):
    """Add a bias: (..., F) and (F,) -> (..., F)."""
    return _add_bias(x, tf.convert_to_tensor(bias))


@tf.custom_gradient
def _add_bias(x, bias):
    def gradients(gradient):
        return gradient, sum_of_rows(tf.reshape(gradient, (-1, gradient.shape[-1])))

    return tf.nn.bias_add(x, bias), gradients


def pointwise(x, kernel, *_):
    """Compute a 1 x 1 convolution with stride 1 as a matmul: (..., C) and (1, 1, C, F) -> (..., F)."""
    channels, filters = kernel.shape[2:]
    product = tf.reshape(x, (-1, channels)) @ tf.reshape(kernel, (channels, filters))
    return tf.reshape(product, (-1, *x.shape[1:-1], filters))


def activated_forward(layer: MLPBlock, product: Callable, tokens):
    """Compute an MLP whose activation and second matrix product are one function: (B, N, D) -> (B, N, D)."""
    projected = tf.matmul(flatten_tokens(tokens), layer.fc1.kernel)
    activated = product(projected, layer.fc1.bias, layer.fc2.kernel)
    return unflatten_tokens(layer.fc2.add_bias(activated, training=True), tokens)


def attended_forward(layer: MultiHeadSelfAttention, product: Callable, tokens):
    """Compute an attention whose output projection is part of one function: (B, N, D) -> (B, N, D)."""
    qkv = layer.by_head(tf.matmul(flatten_tokens(tokens), layer.qkv.kernel), tokens)
    attended = product(qkv, layer.qkv.bias, layer.out.kernel)
    return unflatten_tokens(layer.out.add_bias(attended, training=True), tokens)
