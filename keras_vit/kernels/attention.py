"""The elementwise passes of attention on CPUs, each one XLA-compiled loop in float32.

B batch, N tokens, h heads, d width of a head.
"""

import tensorflow as tf

from keras_vit.kernels.token_sums import xla_compiled


@xla_compiled
def split_heads(qkv, bias):
    """Add the bias (3 h d,) to (B, N, 3, h, d) and return the scaled query, key and value, each (B, h, N, d)."""
    size = qkv.shape[-1]
    biased = tf.cast(qkv, tf.float32) + tf.reshape(tf.cast(bias, tf.float32), (3, -1, size))
    query, key, value = tf.unstack(tf.transpose(biased, (2, 0, 3, 1, 4)), 3)
    return tuple(tf.cast(values, qkv.dtype) for values in (query * size**-0.5, key, value))


@xla_compiled
def query_gradient(gradient):
    """Return the gradient of a query from the gradient of the scaled query, (B, h, N, d)."""
    return tf.cast(tf.cast(gradient, tf.float32) * gradient.shape[-1] ** -0.5, gradient.dtype)


@xla_compiled
def head_dot_products(attended, gradient):
    """Return each head's dot product of the attended values with their gradient: (B, N, h, d) -> (B, h, N, 1).

    It equals the row sum of the weights times their gradient (FlashAttention, arXiv 2205.14135, appendix B).
    """
    products = tf.cast(attended, tf.float32) * tf.cast(gradient, tf.float32)
    return tf.transpose(products @ tf.ones((products.shape[-1], 1)), (0, 2, 1, 3))  # a matmul, as in `sum_in_xla`


@xla_compiled
def logits_gradient(weights, gradient, sums):
    """Return the gradient of the logits from the gradient of the weights, (B, h, N, N), and `head_dot_products`."""
    return tf.cast(tf.cast(weights, tf.float32) * (tf.cast(gradient, tf.float32) - sums), weights.dtype)
