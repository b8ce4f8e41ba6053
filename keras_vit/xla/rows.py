"""What the loops that XLA compiles share, and what gradients on CPUs ask of rows, (rows, width)."""

import math

import tensorflow as tf

FEW = 2048
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
