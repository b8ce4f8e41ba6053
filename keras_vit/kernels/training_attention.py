"""Attention and its output projection for training on CPUs. The gradient of softmax needs no sum over N x N values.

That sum is taken over the attended values instead. Narrow models, and `few_rows`, save the attention weights; others
recompute them. Wide models with many tokens compute one image after another, so that memory holds the N x N weights of
one image, and save the attended values.

B batch, N tokens, D width, h heads, d = D / h.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.kernels.attention import by_logits, by_query, split, sums_of_heads
from keras_vit.kernels.recompute import after
from keras_vit.kernels.rows import few_rows, sum_of_rows

MANY = 512


def attended_product(again: bool = True) -> Callable:
    """Return a function of attention and output projection: (B, N, 3, h, d), bias (3 D,), (D, D) -> (B * N, D).

    Args:
        again: whether the backward pass recomputes the attention weights, except for `few_rows`, and computes many
            tokens image by image; otherwise the weights are saved.
    """

    @tf.custom_gradient
    def of_all(qkv, bias, kernel):
        parts, gathered = _attend(qkv, bias)
        keep = not again or few_rows(*qkv.shape[:2])

        def gradients(gradient):
            late, rows = (parts, gathered) if keep else _attend(*after(gradient, qkv, bias))
            by_rows = tf.matmul(gradient, kernel, transpose_b=True)
            by_qkv = _by_qkv(late, rows, tf.reshape(by_rows, tf.shape(rows)))
            return by_qkv, _by_bias(by_qkv), tf.matmul(_flat(rows), gradient, transpose_a=True)

        return _flat(gathered) @ kernel, gradients

    @tf.custom_gradient
    def of_each(qkv, bias, kernel):
        image = tf.TensorSpec((qkv.shape[1], *qkv.shape[3:]), qkv.dtype)
        rows = _flat(_of_each(lambda qkv: _attend(qkv[None], bias)[1][0], qkv, image))

        def gradients(gradient):
            by_rows = tf.matmul(gradient, kernel, transpose_b=True)
            late_qkv, late_rows = after(gradient, qkv, rows)  # otherwise the forward pass would split them, a copy
            ends = (tf.reshape(numbers, (-1, *image.shape)) for numbers in (late_rows, by_rows))

            def of_image(numbers):
                qkv, gathered, by_gathered = (part[None] for part in numbers)
                return _by_qkv(_attend(qkv, bias)[0], gathered, by_gathered)[0]

            by_qkv = _of_each(of_image, (late_qkv, *ends), tf.TensorSpec(qkv.shape[1:], qkv.dtype))
            return by_qkv, _by_bias(by_qkv), tf.matmul(rows, gradient, transpose_a=True)

        return rows @ kernel, gradients

    def product(qkv, bias, kernel):
        many = again and qkv.shape[1] is not None and qkv.shape[1] >= MANY
        return (of_each if many else of_all)(qkv, tf.convert_to_tensor(bias), tf.convert_to_tensor(kernel))

    return product


def _of_each(function: Callable, batch, gives: tf.TensorSpec):
    """Apply a function to one image after another."""
    return tf.map_fn(function, batch, fn_output_signature=gives, parallel_iterations=1)


def _attend(qkv, bias):
    """Return (query, key, value, weights) of (B, N, 3, h, d) and its bias, and the attended values (B, N, h, d)."""
    query, key, value = split(qkv, bias)
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True))
    return (query, key, value, weights), tf.transpose(weights @ value, (0, 2, 1, 3))


def _by_qkv(parts, gathered, gradient):
    """Return the gradient of (B, N, 3, h, d) from the gradient of the attended values."""
    query, key, value, weights = parts
    sums, gradient = sums_of_heads(gathered, gradient), tf.transpose(gradient, (0, 2, 1, 3))
    logits = by_logits(weights, tf.matmul(gradient, value, transpose_b=True), sums)
    by_key, by_value = (tf.matmul(a, b, transpose_a=True) for a, b in ((logits, query), (weights, gradient)))
    return tf.transpose(tf.stack([by_query(logits @ key), by_key, by_value]), (1, 3, 0, 2, 4))


def _flat(gathered):
    """Flatten tokens and heads: (B, N, h, d) -> (B * N, D)."""
    return tf.reshape(gathered, (-1, gathered.shape[-2] * gathered.shape[-1]))


def _by_bias(by_qkv):
    """Return the gradient of the bias: (B, N, 3, h, d) -> (3 D,)."""
    return sum_of_rows(tf.reshape(by_qkv, (-1, 3 * by_qkv.shape[-2] * by_qkv.shape[-1])))
