"""Muon: its update is the orthogonalised momentum matrix (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

All singular directions of the matrix then get steps of similar size. The kernel of a convolution is reshaped to a
matrix of its outputs and its inputs.
"""

import tensorflow as tf

from keras_vit.private import variable_index
from keras_vit.train.optim.adam import AdamW
from keras_vit.train.optim.layer_decay import BLOCK

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that moves singular values into 0.7 .. 1.2
STEPS = 5
FUSED = {"qkv": 3, "key_value": 2}  # kernels of several concatenated matrices


def orthogonalised(matrix, matmul_dtype: str = "float32"):
    """Return approximately the nearest orthogonal matrix: (n, m), with singular values from 0.7 to 1.2."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = tf.cast(matrix / (tf.norm(matrix) + 1e-7), matmul_dtype)
    x = tf.transpose(x) if tall else x
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
    return tf.cast(tf.transpose(x) if tall else x, matrix.dtype)


def is_matrix(shape) -> bool:
    """Return whether a kernel of a shape holds matrices: of a dense layer, or of a convolution over all channels."""
    return len(shape) == 2 or (len(shape) == 4 and shape[3] > 1)


def orthogonal_step(momentum, path: list[str], matmul_dtype: str = "float32"):
    """Return the step of a kernel: orthogonal matrices, scaled to the length of Adam's steps (arXiv 2502.16982)."""
    matrix = tf.reshape(momentum, (-1, momentum.shape[-1]))
    parts = tf.split(matrix, FUSED.get(path[-2], 1), axis=1)
    sides = max(parts[0].shape)
    steps = tf.concat([0.2 * sides**0.5 * orthogonalised(part, matmul_dtype) for part in parts], axis=1)
    return tf.reshape(steps, momentum.shape)


class Muon(AdamW):
    """Muon for the matrices and convolutions of blocks and units, AdamW for all other variables."""

    def make_slots(self, variable):
        path = variable.path.split("/")
        matrix = BLOCK.fullmatch(path[0]) and path[-1] == "kernel" and is_matrix(variable.shape)
        if not matrix:
            return super().make_slots(variable)
        return (self.slot("momentum", variable, self.settings.moment_dtype),)

    def loop_of(self, slots):
        return super().loop_of(slots) if len(slots) == 2 else None

    def step(self, gradient, variable, rate, decay, *slots):
        if len(slots) == 2:
            super().step(gradient, variable, rate, decay, *slots)
            return
        self.decay(variable, rate, decay)
        beta, (momentum,) = self.settings.momentum, slots
        mean = beta * tf.cast(momentum, gradient.dtype) + (1.0 - beta) * gradient
        momentum.assign(tf.cast(mean, momentum.dtype))
        ahead = beta * mean + (1.0 - beta) * gradient  # Nesterov momentum
        path = self._paths[variable_index(self, variable)]
        variable.assign_sub(rate * orthogonal_step(ahead, path, self._matmul_dtype))
