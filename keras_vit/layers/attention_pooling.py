"""Multi-head attention pooling (arXiv 2106.04560).

B batch, N tokens, D width, h heads, d = D / h.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Dense, flatten_tokens
from keras_vit.layers.encoder import LayerNorm
from keras_vit.layers.mlp import MLPBlock
from keras_vit.layers.override import override_of
from keras_vit.layers.pooling import TokenPooling


class AttentionPooling(TokenPooling):
    """Multi-head attention pooling: one learned query attends to all tokens, then a residual MLP (arXiv 2106.04560).

    Args:
        num_heads: h; must divide the width.
        mlp_dim: width between the MLP's dense layers.
        activation: activation of the MLP.
        layer_norm_epsilon: added to the variance of the norm.
        prefix_tokens: number of tokens in front of the patches that are left out.

    Input: tokens (B, N, D) and, in padded sequences, the output of a `PaddingMask`. Output shape: (B, D).

    Raises:
        ValueError: `num_heads` does not divide the width.
    """

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-6,
        prefix_tokens: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, padding_shape=None):
        super().build(tokens_shape)
        width = tokens_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads expected a divisor of the width {width}, received {self.num_heads}.")
        self.probe = self.add_weight(name="probe", shape=(1, 1, width), initializer="glorot_uniform")
        # Key and value share one matmul; each half is initialised as the D x D matrix of the official code.
        glorot = keras.initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))
        self.key_value = self.make_part(Dense, 2 * width, kernel_initializer=glorot, name="key_value")
        self.query, self.out = (self.make_part(Dense, width, name=name) for name in ("query", "out"))
        for dense in (self.query, self.key_value, self.out):
            dense.build((None, width))
        self.norm = self.make_part(LayerNorm, self.layer_norm_epsilon, name="norm")
        self.norm.build((None, 1, width))
        self.mlp = self.make_part(MLPBlock, self.mlp_dim, self.activation, name="mlp")
        self.mlp.build((None, 1, width))

    def compute_output_shape(self, tokens_shape, padding_shape=None):
        return super().compute_output_shape(tokens_shape)

    def attention_weights(self, tokens: Any, padding: Any = None) -> Any:
        """Return the attention weights of the probe, 0 for tokens that are left out: (B, N, D) -> (B, h, 1, N)."""
        return self._attend(tokens, padding)[0]

    def _attend(self, tokens, padding=None):
        """Return the attention weights (B, h, 1, N) and the values (B, h, N, d)."""
        size = tokens.shape[-1] // self.num_heads
        query = ops.reshape(self.query(flatten_tokens(self.probe)), (1, self.num_heads, 1, size)) * size**-0.5
        split = (-1, ops.shape(tokens)[1], 2, self.num_heads, size)
        key_value = ops.reshape(self.key_value(flatten_tokens(tokens)), split)
        key_value = ops.transpose(key_value, (2, 0, 3, 1, 4))  # (2, B, h, N, d)
        key, value = key_value[0], key_value[1]
        logits = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        logits = logits if padding is None else logits + ops.cast(padding, logits.dtype)
        if not self.prefix_tokens:
            return ops.softmax(logits, axis=-1), value
        weights = ops.softmax(logits[..., self.prefix_tokens :], axis=-1)
        return ops.pad(weights, ((0, 0), (0, 0), (0, 0), (self.prefix_tokens, 0))), value

    def call(self, tokens, padding=None):
        width = tokens.shape[-1]
        weights, value = self._attend(tokens, padding)
        capture = override_of(self, "attention_weights")
        weights = capture(weights) if capture else weights
        attended = ops.matmul(weights, value)  # (B, h, 1, d)
        pooled = ops.reshape(self.out(ops.reshape(attended, (-1, width))), (-1, 1, width))
        return (pooled + self.mlp(self.norm(pooled)))[:, 0]
