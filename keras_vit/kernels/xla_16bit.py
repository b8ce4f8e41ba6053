"""GELU and layer normalisation in 16 bits on JAX, in formulas that XLA computes fast on GPUs."""

import math

from keras import ops


def _logistic(x):
    """Return the factor of tanh GELU, (1 + tanh(u)) / 2 = sigmoid(2 u), and its derivative."""
    scale = 2 * math.sqrt(2 / math.pi)
    factor = ops.sigmoid(scale * (x + 0.044715 * (x * x * x)))
    return factor, factor * (1 - factor) * scale * (1 + 3 * 0.044715 * (x * x))


def _normal(x):
    """Return the cumulative distribution function of the normal distribution at x, and its density."""
    return 0.5 * (1 + ops.erf(x / math.sqrt(2))), ops.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def gelu_tanh(x):
    """Return the tanh approximation of GELU, computed in float32."""
    return _x_times(_logistic, x)


def gelu(x):
    """Return exact GELU, computed in float32."""
    return _x_times(_normal, x)


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalise over the last axis in float32: (..., D) of any dtype -> float32.

    The variance is `mean(x * x) - mean * mean` as in the official code (flax), which XLA computes in one pass.
    """
    x = ops.cast(x, "float32")
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.maximum(ops.mean(x * x, axis=-1, keepdims=True) - mean * mean, 0.0)
    return (x - mean) * (ops.rsqrt(variance + epsilon) * gamma) + beta


def _x_times(factor_and_slope, x):
    """Return factor(x) times x, computed in float32. Only x is saved for the gradient; XLA would save more."""

    @ops.custom_gradient
    def product(x):
        def gradient(upstream):
            wide = ops.cast(x, "float32")
            factor, slope = factor_and_slope(wide)
            return ops.cast(ops.cast(upstream, "float32") * (factor + wide * slope), x.dtype)

        wide = ops.cast(x, "float32")
        return ops.cast(wide * factor_and_slope(wide)[0], x.dtype), gradient

    return product(x)
