"""What gradients on CPUs ask of rows, (rows, width)."""

import math

import tensorflow as tf

FEW = 2048


def few_rows(dtype, *sizes: int | None) -> bool:
    """Whether so many rows (the product of the sizes; None for one not known) are short of time, not of memory.

    Those in bfloat16 are: where products are fast, passes cost most, and what another pass would compute again for the
    gradient is kept.
    """
    return dtype == tf.bfloat16 and None not in sizes and math.prod(sizes) < FEW


def sum_of_rows(x):
    """(rows, F) -> (F,), as a product with ones, which oneDNN computes faster than TensorFlow a sum."""
    return (tf.ones((1, tf.shape(x)[0]), x.dtype) @ x)[0]
