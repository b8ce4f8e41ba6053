"""Muon's step: a matrix of momenta made orthogonal (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

All directions of the matrix are then moved alike, where the gradient moves a few of them and Adam weighs each number by
itself. A convolution is the matrix of its outputs, and of all that each of them sees.
"""

import tensorflow as tf

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that draws singular values into 0.7 .. 1.2
STEPS = 5
FUSED = {"qkv": 3, "key_value": 2}  # kernels that hold several matrices side by side


def orthogonalised(matrix, products: str = "float32"):
    """The nearest orthogonal matrix, nearly: (n, m), of any length -> the same with singular values of 0.7 to 1.2.

    Args:
        matrix: to begin with.
        products: type of the matrix products.
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
    """Whether a kernel of that shape is matrices: of a dense layer, or of a convolution over all channels."""
    return len(shape) == 2 or (len(shape) == 4 and shape[3] > 1)


def direction(momentum, path: list[str], products: str = "float32"):
    """A kernel's step: each of its matrices orthogonal, and as long as Adam's steps are (arXiv 2502.16982)."""
    matrix = tf.reshape(momentum, (-1, momentum.shape[-1]))
    parts = tf.split(matrix, FUSED.get(path[-2], 1), axis=1)
    sides = max(parts[0].shape)
    steps = tf.concat([0.2 * sides**0.5 * orthogonalised(part, products) for part in parts], axis=1)
    return tf.reshape(steps, momentum.shape)
