"""What the loops that XLA compiles share, and what gradients on CPUs ask of rows, (rows, width)."""

import math

import keras
import tensorflow as tf

FEW = 2048
HALVINGS = 3  # once more, and XLA writes the halves out
compiled = tf.function(jit_compile=True, autograph=False)  # a function of tensors, for each of their shapes


def few_rows(*sizes: int | None) -> bool:
    """Whether there are so few rows that keeping numbers for the gradient beats computing them again.

    Args:
        sizes: whose product is their number; None for one that is not known.
    """
    return None not in sizes and math.prod(sizes) < FEW


def sum_of_rows(x):
    """(rows, F) -> (F,), as a product with ones, which oneDNN computes faster than TensorFlow a sum."""
    return (tf.ones((1, tf.shape(x)[0]), x.dtype) @ x)[0]


def summed(x):
    """(R, F) or (B, R, F) -> the sum over R, in a function that XLA compiles; of float32.

    R is halved before: else XLA writes out all that it is to sum. What is left is a product with ones, never
    `tf.reduce_sum`: XLA has YNNPACK compute that, which ends the process where two threads begin it at once
    (TensorFlow 2.21; both may be cores, or branches of a graph).
    """
    for _ in range(HALVINGS):
        length = x.shape[-2]
        if length is None or length % 2:
            break
        x = tf.add(*tf.split(x, 2, axis=-2))
    *batch, length, _ = keras.ops.shape(x)  # where they are known they are numbers, for which XLA computes nothing
    several = x.shape.rank == 3 and x.shape[0] not in (None, 1)
    ones = tf.ones((*batch, 1 if several else 2, length))  # one row times one matrix is a slow loop of XLA's own
    return (ones @ x)[..., 0, :]
