"""Compute attention and its output projection for training on CPUs, with a cheaper gradient of softmax.

The sum of that gradient is taken over the attended values instead of N x N values. Narrow models and few tokens
(`prefer_saved_activations`) save the attention weights; others recompute them. Wide models with many tokens compute one
image after another, so that memory holds the N x N weights of one image, and save the attended values.

B batch, N tokens, D width, h heads, d = D / h.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.attention import head_dot_products, logits_gradient, query_gradient, split_heads
from keras_vit.kernels.recompute import after
from keras_vit.kernels.token_sums import prefer_saved_activations, sum_over_tokens

MANY_TOKENS = 512


def attention_and_projection(recompute: bool = True) -> Callable:
    """Return a function of attention and output projection: (B, N, 3, h, d), bias (3 D,), (D, D) -> (B * N, D).

    Args:
        recompute: whether to recompute the attention weights in the backward pass unless `prefer_saved_activations`,
            and to compute many tokens image by image. Otherwise the weights are saved.
    """

    @tf.custom_gradient
    def batched(qkv, bias, kernel):
        saved, attended = _attend(qkv, bias)
        save = not recompute or prefer_saved_activations(*qkv.shape[:2])

        def gradients(gradient):
            late, values = (saved, attended) if save else _attend(*after(gradient, qkv, bias))
            by_values = tf.matmul(gradient, kernel, transpose_b=True)
            by_qkv = _qkv_gradient(late, values, tf.reshape(by_values, tf.shape(values)))
            return by_qkv, _bias_gradient(by_qkv), tf.matmul(_flatten(values), gradient, transpose_a=True)

        return _flatten(attended) @ kernel, gradients

    @tf.custom_gradient
    def per_image(qkv, bias, kernel):
        image = tf.TensorSpec((qkv.shape[1], *qkv.shape[3:]), qkv.dtype)
        attended = _flatten(_map_images(lambda qkv: _attend(qkv[None], bias)[1][0], qkv, image))

        def gradients(gradient):
            by_attended = tf.matmul(gradient, kernel, transpose_b=True)
            # Otherwise the forward pass would split the tensors into images, which copies them.
            late_qkv, late_attended = after(gradient, qkv, attended)
            per_token = (tf.reshape(values, (-1, *image.shape)) for values in (late_attended, by_attended))

            def image_gradient(tensors):
                qkv, attended, by_attended = (tensor[None] for tensor in tensors)
                return _qkv_gradient(_attend(qkv, bias)[0], attended, by_attended)[0]

            by_qkv = _map_images(image_gradient, (late_qkv, *per_token), tf.TensorSpec(qkv.shape[1:], qkv.dtype))
            return by_qkv, _bias_gradient(by_qkv), tf.matmul(attended, gradient, transpose_a=True)

        return attended @ kernel, gradients

    def attend_and_project(qkv, bias, kernel):
        many = recompute and qkv.shape[1] is not None and qkv.shape[1] >= MANY_TOKENS
        return (per_image if many else batched)(qkv, tf.convert_to_tensor(bias), tf.convert_to_tensor(kernel))

    return attend_and_project


def _map_images(function: Callable, batch, output: tf.TensorSpec):
    """Apply a function to one image after another."""
    return tf.map_fn(function, batch, fn_output_signature=output, parallel_iterations=1)


def _attend(qkv, bias):
    """Return (query, key, value, weights) of (B, N, 3, h, d) and its bias, and the attended values (B, N, h, d)."""
    query, key, value = split_heads(qkv, bias)
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True))
    return (query, key, value, weights), tf.transpose(weights @ value, (0, 2, 1, 3))


def _qkv_gradient(saved, attended, gradient):
    """Return the gradient of (B, N, 3, h, d) from the gradient of the attended values."""
    query, key, value, weights = saved
    sums, gradient = head_dot_products(attended, gradient), tf.transpose(gradient, (0, 2, 1, 3))
    logits = logits_gradient(weights, tf.matmul(gradient, value, transpose_b=True), sums)
    by_key, by_value = (tf.matmul(a, b, transpose_a=True) for a, b in ((logits, query), (weights, gradient)))
    return tf.transpose(tf.stack([query_gradient(logits @ key), by_key, by_value]), (1, 3, 0, 2, 4))


def _flatten(attended):
    """Flatten tokens and heads: (B, N, h, d) -> (B * N, D)."""
    return tf.reshape(attended, (-1, attended.shape[-2] * attended.shape[-1]))


def _bias_gradient(by_qkv):
    """Return the gradient of the bias: (B, N, 3, h, d) -> (3 D,)."""
    return sum_over_tokens(tf.reshape(by_qkv, (-1, 3 * by_qkv.shape[-2] * by_qkv.shape[-1])))
