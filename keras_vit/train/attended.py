"""Attention and the product behind it, for training on CPUs: its gradient needs no N x N weights kept.

Of few tokens both are computed again, but where `few_rows` says that keeping the weights is better. Of many, one image
after the other, so that a batch's N x N numbers are never there at once; the values that were gathered are kept, and
each row's sum of weights times their gradient, which softmax's gradient takes off, is that of gathered values times
theirs (FlashAttention, arXiv 2205.14135, appendix B). benchmarks/NOTES.md has the gains.

B batch, N tokens, D width, h heads, d = D / h.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.layers import MultiHeadSelfAttention
from keras_vit.train.recompute import after, computed_again
from keras_vit.xla.rows import few_rows

MANY = 512


def attended_product(layer: MultiHeadSelfAttention) -> Callable:
    """A layer's attention and the product with a kernel in one: (B, N, 3, h, d), (D, D) -> (B * N, D)."""

    def attended(qkv, kernel):
        return layer.attend(qkv) @ kernel

    @tf.custom_gradient
    def of_many(qkv, kernel):
        tokens, width = qkv.shape[1], kernel.shape[0]
        values = tf.TensorSpec((tokens, width), qkv.dtype)
        rows = tf.reshape(_of_each(lambda qkv: layer.attend(qkv[None]), qkv, values), (-1, width))

        def gradients(gradient):
            by_rows = tf.matmul(gradient, kernel, transpose_b=True)
            late_qkv, late_rows = after(gradient, qkv, rows)  # else cut up, a copy, in the forward pass already
            ends = (tf.reshape(numbers, (-1, tokens, *qkv.shape[3:])) for numbers in (late_rows, by_rows))
            projections = tf.TensorSpec(qkv.shape[1:], qkv.dtype)
            by_qkv = _of_each(lambda image: _by_projections(layer, *image), (late_qkv, *ends), projections)
            return by_qkv, tf.matmul(rows, gradient, transpose_a=True)

        return rows @ kernel, gradients

    def product(qkv, kernel):
        kernel = tf.convert_to_tensor(kernel)
        if qkv.shape[1] is not None and qkv.shape[1] >= MANY:
            return of_many(qkv, kernel)
        return (attended if few_rows(qkv.dtype, *qkv.shape[:2]) else computed_again(attended))(qkv, kernel)

    return product


def _of_each(function: Callable, batch, gives: tf.TensorSpec):
    """The function of one image's numbers after the other's."""
    return tf.map_fn(function, batch, fn_output_signature=gives, parallel_iterations=1)


def _by_projections(layer, qkv, gathered, gradient):
    """An image's (N, 3, h, d), the values (N, h, d) that it gathered and their gradient -> its projections' one."""
    with tf.GradientTape() as tape:
        tape.watch(qkv)
        query, key, value = parts = layer.split(qkv[None])
    weights = tf.nn.softmax(query @ key)
    products = tf.cast(gathered, tf.float32) * tf.cast(gradient, tf.float32)
    along = tf.cast(tf.transpose(tf.reduce_sum(products, axis=-1))[..., None], weights.dtype)  # (h, N, 1)
    gradient = tf.transpose(gradient, (1, 0, 2))[None]
    by_logits = weights * (tf.matmul(gradient, value, transpose_b=True) - along)
    by_parts = (
        tf.matmul(by_logits, key, transpose_b=True),
        tf.matmul(query, by_logits, transpose_a=True),
        tf.matmul(weights, gradient, transpose_a=True),
    )
    return tape.gradient(parts, qkv, by_parts)
