"""Muon's step: a matrix of momenta made orthogonal (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

All directions of the matrix are then moved alike, where the gradient moves a few of them and Adam weighs each number by
itself.
"""

import tensorflow as tf

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that draws singular values into 0.7 .. 1.2
STEPS = 5
FUSED = {"qkv": 3, "key_value": 2}  # kernels that hold several matrices side by side


def orthogonalised(matrix, products: str = "float32"):
    """The nearest orthogonal matrix, nearly: (n, m), of any length -> the same with singular values of 0.7 to 1.2.

    Args:
        matrix: to begin with.
        products: type of the matrix products. In `float32` those of an oblong matrix are of squares of its shorter
            side, but for two; in `bfloat16` the rounding of such squares would outgrow the small singular values.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = tf.cast(matrix / (tf.norm(matrix) + 1e-7), products)
    x = tf.transpose(x) if tall else x
    short, long = x.shape
    x = _by_squares(x) if products == "float32" and 2 * long > 3 * short else _step_by_step(x)
    return tf.cast(tf.transpose(x) if tall else x, matrix.dtype)


def _step_by_step(x):
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
    return x


def _by_squares(x):
    """The same: the steps' factors are polynomials of one square matrix, so they commute, and are multiplied first."""
    a, b, c = COEFFICIENTS
    square, turn = tf.matmul(x, x, transpose_b=True), None
    for step in range(STEPS):
        factor = a * tf.eye(x.shape[0], dtype=x.dtype) + b * square + c * tf.matmul(square, square)
        turn = factor if turn is None else tf.matmul(factor, turn)
        if step < STEPS - 1:
            square = tf.matmul(tf.matmul(factor, square), factor)
    return tf.matmul(turn, x)


def direction(momentum, path: list[str], products: str = "float32"):
    """A kernel's step: each of its matrices orthogonal, and as long as Adam's steps are (arXiv 2502.16982)."""
    parts = tf.split(momentum, FUSED.get(path[-2], 1), axis=1)
    sides = max(parts[0].shape)
    return tf.concat([0.2 * sides**0.5 * orthogonalised(part, products) for part in parts], axis=1)
