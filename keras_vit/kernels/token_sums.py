"""Sum over flattened tokens in kernels for CPUs, and define the decorator that compiles a loop by XLA.

R flattened tokens, F features.
"""

import math

import keras
import tensorflow as tf

SAVE_BELOW = 2048
HALVINGS = 3  # a fourth halving would make XLA materialise the halves
xla_compiled = tf.function(jit_compile=True, autograph=False)  # compiled for each shape of its inputs


def prefer_saved_activations(*sizes: int | None) -> bool:
    """Return True below 2,048 tokens, where saving activations is cheaper than rematerialising them.

    Args:
        sizes: factors of the number of tokens. The result is False if a factor is unknown (None).
    """
    return None not in sizes and math.prod(sizes) < SAVE_BELOW


def sum_over_tokens(x):
    """Sum over the tokens by a matmul with ones, which oneDNN computes faster than a sum: (R, F) -> (F,)."""
    return (tf.ones((1, tf.shape(x)[0]), x.dtype) @ x)[0]


def sum_in_xla(x):
    """Sum float32 values over R inside an XLA-compiled function: (R, F) or (B, R, F) -> (F,) or (B, F).

    R is halved first; otherwise XLA materialises its input. The remaining sum is a matmul with ones, because XLA passes
    a large `tf.reduce_sum` to YNNPACK, which can end the process if two threads start one together (TensorFlow 2.21).
    """
    for _ in range(HALVINGS):
        length = x.shape[-2]
        if length is None or length % 2:
            break
        x = tf.add(*tf.split(x, 2, axis=-2))
    *batch, length, _ = keras.ops.shape(x)  # known sizes are Python ints, which cost no XLA operation
    several = x.shape.rank == 3 and x.shape[0] not in (None, 1)
    ones = tf.ones((*batch, 1 if several else 2, length))  # XLA computes a single row times a matrix by a slow loop
    return (ones @ x)[..., 0, :]
