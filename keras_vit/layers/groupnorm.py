"""Group normalisation of the hybrids' stem and of BiT.

B batch, H W C feature map.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_vit.layers.base import Layer, require_rank
from keras_vit.layers.override import override_of

_GROUPS = 32


class GroupNorm(Layer):
    """Group normalisation over 32 groups of channels, computed in float32.

    Args:
        epsilon: value added to the variance; 1e-6 in the official hybrids, 1e-5 in BiT and timm.
        gamma_initializer: initializer of the scale; zeros in the last norm of a v1 unit.

    Input and output shape: (B, H, W, C). With `relu=True` the output passes through a ReLU.

    Raises:
        ValueError: the number of channels is not a multiple of 32.
    """

    def __init__(self, epsilon: float = 1e-6, gamma_initializer: str = "ones", **kwargs: Any):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.gamma_initializer = gamma_initializer

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        channels = input_shape[-1]
        if channels % _GROUPS:
            raise ValueError(f"{self.name} expected channels that are a multiple of {_GROUPS}, received {channels}.")
        self.gamma = self.add_weight(
            name="gamma", shape=(channels,), initializer=self.gamma_initializer, autocast=False
        )
        self.beta = self.add_weight(name="beta", shape=(channels,), initializer="zeros", autocast=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, relu=False, training=False):
        norm = override_of(self, "norm", training) or group_norm
        gamma, beta = (ops.cast(variable, "float32") for variable in (self.gamma, self.beta))
        return norm(x, gamma, beta, self.epsilon, relu)


def group_norm(x, gamma, beta, epsilon: float, relu: bool = False):
    """Normalise each group in float32, then apply a ReLU if requested: (B, H, W, C) -> (B, H, W, C)."""
    # Means over the pixels first: a reduction over contiguous channels, then a small one inside the groups.
    deviation = ops.cast(x, "float32")
    deviation = deviation - _means(deviation)
    scale = ops.rsqrt(_means(deviation * deviation) + epsilon) * gamma
    normed = ops.cast(deviation * scale + beta, x.dtype)
    return ops.relu(normed) if relu else normed


def _means(x):
    """Return each channel's mean over the pixels and channels of its group: (B, H, W, C) -> (B, 1, 1, C)."""
    return mean_of_groups(ops.mean(x, axis=(1, 2)), sides=2)


def mean_of_groups(x, sides: int = 1):
    """Return the mean of each channel's group: (B, C) -> (B, 1, C), with `sides` axes of length 1."""
    channels = x.shape[-1]
    mean = ops.mean(ops.reshape(x, (-1, _GROUPS, channels // _GROUPS)), axis=-1, keepdims=True)
    # Repeat by multiplying with ones. `ops.repeat` makes thirty operations in TensorFlow, and Keras 3.15 turns a sum
    # with 32 zeros into a bias that is added to the 32 groups.
    repeated = ops.multiply(mean, np.ones(channels // _GROUPS, "float32"))
    return ops.reshape(repeated, (-1, *[1] * sides, channels))
