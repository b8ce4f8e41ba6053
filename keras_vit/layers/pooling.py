"""Pool the tokens of an image into one vector, and classify it.

B batch, N tokens, D width.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Configured, Layer, require_rank
from keras_vit.layers.dense import AdaptableDense


class TokenPooling(Layer):
    """Returns the class token, which is the first: (B, N, D) -> (B, D)."""

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def call(self, tokens):
        return tokens[:, 0]


class MeanPooling(TokenPooling):
    """Returns the mean of the patch tokens (appendix D.3).

    Args:
        prefix_tokens: number of tokens in front of the patches (a class token); they are skipped.

    Input shape: (B, N, D). Output shape: (B, D).
    """

    def __init__(self, prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens

    def call(self, tokens):
        return ops.mean(tokens[:, self.prefix_tokens :], axis=1)


class Head(Configured, AdaptableDense):
    """Linear classifier, initialised to zeros, so that every class starts equally likely (appendix B.1.1).

    Args:
        units: number of classes.
        bias_constant: initial bias; big_vision pre-trains with -10 and a sigmoid loss on 21,843 classes.
        labels: names of the classes in order, saved in the model for exports and predictions.
        conversion: why loaded weights did not fill this layer; saved in the config.
        temperature: the temperature by which kernel and bias were divided after training, saved in the model for
            exports; see `keras_vit.evaluate.set_temperature`. It does not change the output.

    Input shape: (B, D). Output shape: (B, units).

    Raises:
        ValueError: the number of `labels` is not `units`, or another argument of `keras.layers.Dense` is given.
    """

    changes = AdaptableDense.changes

    def __init__(
        self,
        units: int,
        bias_constant: float = 0.0,
        labels: Sequence[str] | None = None,
        conversion: str | None = None,
        temperature: float = 1.0,
        **kwargs: Any,
    ):
        known = {"name", "trainable", "dtype", "quantization_config", "lora_rank", "lora_alpha"}
        if others := kwargs.keys() - known:  # arguments of a dense layer that the config would not save
            raise ValueError(f"Head expected its own arguments, name, trainable and dtype, received {sorted(others)}.")
        bias = keras.initializers.Constant(bias_constant)
        super().__init__(units, kernel_initializer="zeros", bias_initializer=bias, **kwargs)
        self.bias_constant = bias_constant
        self.conversion = conversion
        self.temperature = temperature
        self.labels = None if labels is None else tuple(labels)
        if self.labels is not None and len(self.labels) != units:
            raise ValueError(f"labels expected {units} names, one for each class, received {len(self.labels)}.")
