"""Differential attention: the difference of two attentions, which cancels what both attend to (arXiv 2410.05258).

B batch, N tokens, h heads, d width of a head.
"""

import keras
from keras import ops

from keras_vit.layers.override import override_of
from keras_vit.layers.rms_norm import RMSNorm

_EPSILON = 1e-5  # of the norm of each head, as in the paper's code
VECTORS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


def add_lambdas(attention, size: int) -> None:
    """Add the four vectors (d / 2,) of an attention, and the norm of its heads (d,); `size` is d."""
    for name in VECTORS:
        small = keras.initializers.RandomNormal(stddev=0.1)
        vector = attention.add_weight(name=name, shape=(size // 2,), initializer=small, autocast=False)
        setattr(attention, name, vector)
    attention.head_norm = attention.make_part(RMSNorm, _EPSILON, name="head_norm")
    attention.head_norm.build((None, size))


def halves(x):
    """Split each head of queries or keys into two heads: (B, N, h, d) -> (B, N, 2 h, d / 2)."""
    return ops.reshape(x, (-1, ops.shape(x)[1], 2 * x.shape[2], x.shape[3] // 2))


def difference(attention, weights):
    """Subtract the second attention of each head from the first: (B, 2 h, N, N) -> (B, h, N, N).

    Each row then sums to 1 - lambda.
    """
    q1, k1, q2, k2 = (ops.cast(getattr(attention, name), "float32") for name in VECTORS)
    factor = ops.exp(ops.sum(q1 * k1)) - ops.exp(ops.sum(q2 * k2)) + attention.differential
    first, second = weights[:, ::2], weights[:, 1::2]
    return first - ops.cast(factor, weights.dtype) * second


def attend_differentially(attention, weights, value, training):
    """Return the attended values of each head, normalised: (B, 2 h, N, N) and (B, h, N, d) -> (B, N, h, d)."""
    capture = override_of(attention, "attention_weights", training)
    weights = difference(attention, attention.attention_dropout(weights, training=training))
    weights = capture(weights) if capture else weights
    attended = attention.head_norm(ops.matmul(weights, value))
    return ops.transpose(attended * (1 - attention.differential), (0, 2, 1, 3))
