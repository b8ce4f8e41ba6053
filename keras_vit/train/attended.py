"""Attention and the product behind it, for training on CPUs: for its gradient no N x N weights are kept.

Of few tokens both are computed again. Of many, one image after the other, so that a batch's N x N numbers are never
there at once; the values that were gathered are kept, and each row's sum of weights times their gradient, which
softmax's gradient takes off, is that of gathered values times theirs (FlashAttention, arXiv 2205.14135, appendix B).
benchmarks/NOTES.md has the gains.

B batch, N tokens, D width, h heads, d = D / h.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_vit.layers import MultiHeadSelfAttention
from keras_vit.train.recompute import computed_again

MANY = 512


def attended_product(layer: MultiHeadSelfAttention) -> Callable:
    """A layer's attention and the product with a kernel in one: (B, N, 3, h, d), (D, D) -> (B * N, D)."""
    of_few = computed_again(lambda qkv, kernel: layer.attend(qkv) @ kernel)

    @tf.custom_gradient
    def of_many(qkv, kernel):
        parts = layer.split(qkv)
        gathered = _of_each(_gathered, parts, like=parts[2])
        rows = tf.reshape(tf.transpose(gathered, (0, 2, 1, 3)), (-1, kernel.shape[0]))

        def gradients(gradient):
            with tf.control_dependencies([gradient]):  # else TensorFlow would keep the parts
                late = tf.identity(qkv)
            with tf.GradientTape() as tape:
                tape.watch(late)
                parts = layer.split(late)
            by_rows = tf.matmul(gradient, kernel, transpose_b=True)
            ends = [_heads(numbers, like=parts[2]) for numbers in (rows, by_rows)]
            by_parts = _of_each(_by_parts, (*parts, *ends), like=parts)
            return tape.gradient(parts, late, by_parts), tf.matmul(rows, gradient, transpose_a=True)

        return rows @ kernel, gradients

    def product(qkv, kernel):
        few = qkv.shape[1] is None or qkv.shape[1] < MANY
        return (of_few if few else of_many)(qkv, tf.convert_to_tensor(kernel))

    return product


def _heads(rows, like):
    """(B * N, D) -> (B, h, N, d), the shape of `like`."""
    images, heads, tokens, size = tf.unstack(tf.shape(like))
    return tf.transpose(tf.reshape(rows, (images, tokens, heads, size)), (0, 2, 1, 3))


def _of_each(function: Callable, tensors: tuple, like):
    """The function of one image's tensors after the other's; `like`: tensors of the shapes and types that it gives."""
    kinds = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape[1:], tensor.dtype), like)
    return tf.map_fn(function, tensors, fn_output_signature=kinds, parallel_iterations=1)


def _gathered(parts):
    """An image's (h, N, d), (h, d, N) and (h, N, d) -> (h, N, d)."""
    query, key, value = parts
    return tf.nn.softmax(query @ key) @ value


def _by_parts(tensors):
    """An image's parts, the values they gathered and these values' gradient -> the parts' gradients."""
    query, key, value, gathered, gradient = tensors
    weights = tf.nn.softmax(query @ key)
    by_weights = tf.matmul(gradient, value, transpose_b=True)
    products = tf.cast(gathered, tf.float32) * tf.cast(gradient, tf.float32)
    by_logits = weights * (by_weights - tf.cast(tf.reduce_sum(products, axis=-1, keepdims=True), weights.dtype))
    return (
        tf.matmul(by_logits, key, transpose_b=True),
        tf.matmul(query, by_logits, transpose_a=True),
        tf.matmul(weights, gradient, transpose_a=True),
    )
