"""The norms of ResNets' feature maps, each with an optional ReLU or an activation of its own.

B batch, H W C feature map.
"""

from typing import Any

from keras import ops
from keras.layers import BatchNormalization

from keras_vit.layers.base import Configured, Layer, require_rank
from keras_vit.layers.groupnorm import GroupNorm, mean_of_groups

_MOMENTUM = 0.9  # of the moving averages, 0.1 in torch


class BatchNorm(Configured, BatchNormalization):
    """Batch normalisation.

    Args:
        epsilon: value added to the variance.
        gamma_initializer: initializer of the scale.

    Input and output shape: (B, H, W, C). With `relu=True` the output passes through a ReLU.
    """

    def __init__(self, epsilon: float = 1e-5, gamma_initializer: str = "ones", **kwargs: Any):
        super().__init__(momentum=_MOMENTUM, epsilon=epsilon, gamma_initializer=gamma_initializer, **kwargs)

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon, "gamma_initializer": "ones"}

    def call(self, x, relu=False, training=False):
        normed = super().call(x, training=training)
        return ops.relu(normed) if relu else normed


class EvoNorm(Layer):
    """EvoNorm-S0 over 32 groups of channels: x sigmoid(v x) / std(x), scaled and shifted (arXiv 2004.02967).

    Args:
        epsilon: value added to the variance.
        gamma_initializer: initializer of the scale.

    Input and output shape: (B, H, W, C). `relu` is ignored, because the norm has an activation of its own.
    """

    def __init__(self, epsilon: float = 1e-5, gamma_initializer: str = "ones", **kwargs: Any):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.gamma_initializer = gamma_initializer

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        initial = {"gamma": self.gamma_initializer, "beta": "zeros", "slope": "ones"}
        for name, initializer in initial.items():
            weight = self.add_weight(name=name, shape=(input_shape[-1],), initializer=initializer, autocast=False)
            setattr(self, name, weight)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, relu=False):
        gamma, beta, slope = (ops.cast(weight, "float32") for weight in (self.gamma, self.beta, self.slope))
        x = ops.cast(x, "float32")
        deviation = x - mean_of_groups(ops.mean(x, axis=(1, 2)), sides=2)
        variance = mean_of_groups(ops.mean(deviation * deviation, axis=(1, 2)), sides=2)
        normed = x * ops.sigmoid(x * slope) * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normed * gamma + beta, self.compute_dtype)


MAP_NORMS = {"group": GroupNorm, "batch": BatchNorm, "evo": EvoNorm}
