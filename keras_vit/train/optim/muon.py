"""Muon's update: the momentum matrix, orthogonalised (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

All singular directions of the matrix then get steps of similar size. The kernel of a convolution is reshaped to a
matrix of its outputs and its inputs.
"""

import tensorflow as tf

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that moves singular values into 0.7 .. 1.2
STEPS = 5
FUSED = {"qkv": 3, "key_value": 2}  # kernels of several concatenated matrices


def orthogonalised(matrix, products: str = "float32"):
    """Return approximately the nearest orthogonal matrix: (n, m), with singular values from 0.7 to 1.2.

    Args:
        matrix: (n, m), of any norm.
        products: dtype of the matrix products.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = tf.cast(matrix / (tf.norm(matrix) + 1e-7), products)
    x = tf.transpose(x) if tall else x
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
    return tf.cast(tf.transpose(x) if tall else x, matrix.dtype)


def moves(shape) -> bool:
    """Return whether a kernel of a shape holds matrices: of a dense layer, or of a convolution over all channels."""
    return len(shape) == 2 or (len(shape) == 4 and shape[3] > 1)


def direction(momentum, path: list[str], products: str = "float32"):
    """Return the step of a kernel: orthogonal matrices, scaled to the length of Adam's steps (arXiv 2502.16982)."""
    matrix = tf.reshape(momentum, (-1, momentum.shape[-1]))
    parts = tf.split(matrix, FUSED.get(path[-2], 1), axis=1)
    sides = max(parts[0].shape)
    steps = tf.concat([0.2 * sides**0.5 * orthogonalised(part, products) for part in parts], axis=1)
    return tf.reshape(steps, momentum.shape)
