"""Root mean square normalisation (arXiv 1910.07467).

D width.
"""

from typing import Any

from keras import ops

from keras_vit.layers.base import Layer


class RMSNorm(Layer):
    """Divide by the root mean square over the last axis, computed in float32, and multiply by a learned factor.

    Args:
        epsilon: value added to the mean square; 1e-5 in AIMv2.

    Input and output shape: (..., D).
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=(input_shape[-1],), initializer="ones", autocast=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x):
        x = ops.cast(x, "float32")
        rate = ops.rsqrt(ops.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return ops.cast(x * rate * ops.cast(self.gamma, "float32"), self.compute_dtype)
