"""What attention on CPUs does beside its products, each pass one loop that XLA compiles, in float32 whatever the type.

B batch, N tokens, h heads, d numbers a head.
"""

import tensorflow as tf

from keras_vit.kernels.rows import compiled


@compiled
def split(qkv, bias):
    """(B, N, 3, h, d) and its bias, (3 h d,) -> query, already scaled, key and value, (B, h, N, d) each."""
    size = qkv.shape[-1]
    biased = tf.cast(qkv, tf.float32) + tf.reshape(tf.cast(bias, tf.float32), (3, -1, size))
    query, key, value = tf.unstack(tf.transpose(biased, (2, 0, 3, 1, 4)), 3)
    return tuple(tf.cast(part, qkv.dtype) for part in (query * size**-0.5, key, value))


@compiled
def by_query(gradient):
    """The gradient of a query, (B, h, N, d), from that of the scaled one."""
    return tf.cast(tf.cast(gradient, tf.float32) * gradient.shape[-1] ** -0.5, gradient.dtype)


@compiled
def sums_of_heads(gathered, gradient):
    """Each head's sum of gathered values times their gradient: (B, N, h, d) twice -> (B, h, N, 1) of float32.

    It is a row's sum of weights times their gradient (FlashAttention, arXiv 2205.14135, appendix B).
    """
    products = tf.cast(gathered, tf.float32) * tf.cast(gradient, tf.float32)
    return tf.transpose(products @ tf.ones((products.shape[-1], 1)), (0, 2, 1, 3))  # `rows.summed` has why a product


@compiled
def by_logits(weights, gradient, sums):
    """The gradient of softmax's input from that of the weights, both (B, h, N, N), and each row's sum of products."""
    return tf.cast(tf.cast(weights, tf.float32) * (tf.cast(gradient, tf.float32) - sums), weights.dtype)
