"""Compute cheaper gradients for training on CPUs. They differ from the reference layers only by rounding.

GELU, ReLU and the norms are loops that XLA compiles. The gradient of a bias, a sum over tokens, is a matmul with a row
of ones. A 1 x 1 convolution is a matmul. Matmuls with a bias are slow with AMX: GELU's loop adds the bias of an MLP's
first layer, and the loop that splits query, key and value adds attention's bias. `training_attention.py` has the
gradient of attention.

Norms save only their input for the backward pass. Wide models do the same for attention, and for GELU with the matmul
after it, except for few tokens. Evaluation and exports use the reference layers. On GPUs and TPUs XLA compiles the
gradient of a whole replica, and these overrides are not used.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.token_sums import sum_over_tokens
from keras_vit.layers import MLPBlock, MultiHeadSelfAttention
from keras_vit.layers.attention_options import AttentionWithOptions
from keras_vit.layers.base import flatten_tokens, unflatten_tokens


def add_bias(x, bias):
    """Add a bias: (..., F) and (F,) -> (..., F)."""
    return _add_bias(x, tf.convert_to_tensor(bias))


@tf.custom_gradient
def _add_bias(x, bias):
    def gradients(gradient):
        return gradient, sum_over_tokens(tf.reshape(gradient, (-1, gradient.shape[-1])))

    return tf.nn.bias_add(x, bias), gradients


def pointwise_convolution(x, kernel, *_):
    """Compute a 1 x 1 convolution with stride 1 as a matmul: (..., C) and (1, 1, C, F) -> (..., F)."""
    channels, filters = kernel.shape[2:]
    product = tf.reshape(x, (-1, channels)) @ tf.reshape(kernel, (channels, filters))
    return tf.reshape(product, (-1, *x.shape[1:-1], filters))


def mlp_forward(layer: MLPBlock, activated_matmul: Callable, tokens):
    """Compute an MLP whose activation and second matmul are one function: (B, N, D) -> (B, N, D)."""
    projected = layer.fc1.project(flatten_tokens(tokens))
    output = activated_matmul(projected, layer.fc1.bias, layer.fc2.kernel)
    return unflatten_tokens(layer.fc2.add_bias(output, training=True), tokens)


def attention_forward(layer: MultiHeadSelfAttention, attend_and_project: Callable, tokens):
    """Compute attention with its output projection as one function: (B, N, D) -> (B, N, D)."""
    qkv = layer.by_head(layer.qkv.project(flatten_tokens(tokens)), tokens)
    output = attend_and_project(qkv, layer.qkv.bias, layer.out.kernel)
    return unflatten_tokens(layer.out.add_bias(output, training=True), tokens)


def attention_forward_with_options(layer: AttentionWithOptions, attend_and_project: Callable, tokens):
    """Compute an attention whose options change query, key and value only: (B, N, D) -> (B, N, D)."""
    qkv = layer.project(tokens, training=True)
    output = attend_and_project(qkv, tf.zeros(3 * tokens.shape[-1], qkv.dtype), layer.out.kernel)
    return unflatten_tokens(layer.out.add_bias(output, training=True), tokens)
