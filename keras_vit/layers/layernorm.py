"""Layer normalisation of the encoder blocks and of pooling."""

from keras import ops

from keras_vit.layers.base import Layer, half_on_jax
from keras_vit.layers.override import override_of


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalise over the last axis in float32: (..., D) of any dtype -> float32.

    The variance is written as `d = x - mean; mean(d * d)`, which converts to integer TFLite best. In 16 bits on JAX it
    is `mean(x * x) - mean * mean` as in the official code (flax), which XLA computes in one pass.
    """
    half, x = half_on_jax(x), ops.cast(x, "float32")
    mean = ops.mean(x, axis=-1, keepdims=True)
    deviation = x - mean
    if half:
        variance = ops.maximum(ops.mean(x * x, axis=-1, keepdims=True) - mean * mean, 0.0)
        return deviation * (ops.rsqrt(variance + epsilon) * gamma) + beta
    variance = ops.mean(deviation * deviation, axis=-1, keepdims=True)
    return deviation * ops.rsqrt(variance + epsilon) * gamma + beta


class LayerNorm(Layer):
    """Layer normalisation over the last axis, computed in float32.

    Args:
        epsilon: added to the variance; 1e-6 in the official code, 1e-12 in transformers.

    Input and output shape: (..., D).
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros", autocast=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, training=False):
        norm = override_of(self, "norm", training) or layer_norm
        gamma, beta = (ops.cast(variable, "float32") for variable in (self.gamma, self.beta))
        return ops.cast(norm(x, gamma, beta, self.epsilon), self.compute_dtype)
