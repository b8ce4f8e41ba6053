"""Learned prompt tokens in the input of a block (VPT, arXiv 2203.12119).

B batch, N tokens, D width.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Layer, require_rank

_LIMIT = math.sqrt(6 / (3 * 16 * 16 + 768))  # of the authors' initial values, for patches of 16 pixels in ViT-B


class Prompts(Layer):
    """Insert learned tokens behind the prefix tokens, or replace the tokens of the previous block (VPT-deep).

    Args:
        count: P, the number of learned tokens.
        prefix_tokens: number of tokens in front of them, such as the class token.
        replace: whether the input has P tokens in this place already, which are dropped.

    Input shape: (B, N, D). Output shape: (B, N + P, D), with `replace` (B, N, D).
    """

    kind = "prompt"

    def __init__(self, count: int, prefix_tokens: int = 1, replace: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.count = count
        self.prefix_tokens = prefix_tokens
        self.replace = replace

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        uniform = keras.initializers.RandomUniform(-_LIMIT, _LIMIT)
        self.token = self.add_weight(name="token", shape=(1, self.count, input_shape[-1]), initializer=uniform)

    def compute_output_shape(self, input_shape):
        batch, tokens, width = input_shape
        return (batch, tokens and tokens + self.count * (not self.replace), width)

    def call(self, tokens):
        shape = (ops.shape(tokens)[0], self.count, tokens.shape[-1])
        prompts = ops.cast(ops.broadcast_to(self.token, shape), tokens.dtype)
        rest = self.prefix_tokens + self.count * self.replace
        return ops.concatenate([tokens[:, : self.prefix_tokens], prompts, tokens[:, rest:]], axis=1)
