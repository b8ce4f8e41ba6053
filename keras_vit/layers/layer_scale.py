"""LayerScale: a learned factor per feature at the end of a residual branch (CaiT, arXiv 2103.17239, equation 2).

B batch, N tokens, D width.
"""

import numbers
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Layer


class LayerScale(Layer):
    """Multiply each feature by a learned factor.

    Args:
        initial_value: initial value of all factors; 1e-5 in DINOv2, 1e-6 in timm's DeiT III.

    Input and output shape: (..., D).

    Raises:
        ValueError: `initial_value` is not a number.
    """

    def __init__(self, initial_value: float = 1e-5, **kwargs: Any):
        super().__init__(**kwargs)
        if isinstance(initial_value, bool) or not isinstance(initial_value, numbers.Real):
            raise ValueError(f"layer_scale expected a number or None, received {initial_value!r}.")
        self.initial_value = initial_value

    def build(self, input_shape):
        initial = keras.initializers.Constant(self.initial_value)
        self.gamma = self.add_weight(name="gamma", shape=(input_shape[-1],), initializer=initial)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x):
        return ops.multiply(x, self.gamma)


def add_scale(block: Layer, name: str, shape: tuple) -> LayerScale | None:
    """Return a new inner `LayerScale` of a block for branches of a shape; None where the block has none."""
    if block.layer_scale is None or name in getattr(block, "without_parts", ()):
        return None
    scale = block.make_part(LayerScale, block.layer_scale, name=name)
    scale.build(shape)
    return scale
