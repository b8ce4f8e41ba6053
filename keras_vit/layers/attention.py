"""Multi-head self-attention (section 3.1, equation 2; appendix A).

B batch, N tokens, D width, h heads, d = D / h. Matrix products use flattened tokens (B * N, D): the bias fuses into the
matmul, and a free batch size costs no shape arithmetic.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Dense, Layer, flatten_tokens, require_rank, require_rate, unflatten_tokens
from keras_vit.layers.class_token_attention import attend_from_class_token
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.override import override_of
from keras_vit.layers.relative_positions import add_offsets, relative_logits


class MultiHeadSelfAttention(Layer):
    """Multi-head self-attention (appendix A).

    Query, key and value share one (D, 3 D) matrix product; each third is initialised as a D x D matrix.

    Args:
        num_heads: h; must divide the width.
        attention_dropout_rate: dropout on the attention weights, in [0, 1).
        relative_positions: whether the dot product of the query with a learned embedding of the offset between key and
            query is added to the logits (appendix D.4, "relative"). The class token has the first place.

    Input and output shape: (B, N, D). With relative positions, N is fixed when the layer is built. With
    `class_token_only`, the output is the class token, (B, 1, D), and relative positions are ignored.

    Raises:
        ValueError: `num_heads` does not divide the width, or with relative positions N is unknown or has changed.
    """

    use_bias, out_bias, qkv_widths = True, True, 3.0  # biases of both dense layers; width of `qkv` / D

    def __init__(
        self, num_heads: int, attention_dropout_rate: float = 0.0, relative_positions: bool = False, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout_rate = require_rate("attention_dropout_rate", attention_dropout_rate)
        self.relative_positions = relative_positions
        self.adds_to_logits = relative_positions

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads expected a divisor of the width {width}, received {self.num_heads}.")
        glorot = keras.initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))
        options = {"use_bias": self.use_bias, "kernel_initializer": glorot}
        self.qkv = self.make_part(Dense, round(self.qkv_widths * width), **options, name="qkv")
        self.qkv.build((None, width))
        self.out = self.make_part(Dense, width, use_bias=self.out_bias, name="out")
        self.out.build((None, width))
        if self.relative_positions:
            self.offsets = add_offsets(self, input_shape)
        self.attention_dropout = Dropout(self.attention_dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, input_shape):
        return input_shape

    def project(self, tokens: Any) -> Any:
        """Return query, key and value in one tensor: (B, N, 3, h, d)."""
        return self.by_head(self.qkv(flatten_tokens(tokens)), tokens)

    def by_head(self, flat: Any, tokens: Any) -> Any:
        """Reshape the output of `qkv`, with the N of `tokens`: (B * N, 3 D) -> (B, N, 3, h, d)."""
        return ops.reshape(flat, (-1, ops.shape(tokens)[1], 3, self.num_heads, tokens.shape[-1] // self.num_heads))

    def split(self, qkv: Any) -> tuple[Any, Any, Any]:
        """Return the scaled query (B, h, N, d), the transposed key (B, h, d, N) and the value (B, h, N, d)."""
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3, axis=0)  # each (B, h, N, d)
        return query * qkv.shape[-1] ** -0.5, ops.transpose(key, (0, 1, 3, 2)), value

    def _logits(self, query, key):
        """Return the attention logits: (B, h, N, d) and (B, h, d, N) -> (B, h, N, N)."""
        logits = ops.matmul(query, key)
        return logits + relative_logits(self, query) if self.relative_positions else logits

    def attention_weights(self, tokens: Any) -> Any:
        """Return the attention weights: (B, N, D) -> (B, h, N, N). Each row sums to 1."""
        query, key, _ = self.split(self.project(tokens))
        return ops.softmax(self._logits(query, key), axis=-1)

    def _attend(self, qkv, training):
        """Return the attended values of each head: (B, N, 3, h, d) -> (B, N, h, d)."""
        dropped = training and self.attention_dropout_rate
        capture = override_of(self, "attention_weights", training)
        attend = override_of(self, "attend", training)
        if attend and not (capture or self.adds_to_logits or dropped):
            return attend(*ops.unstack(qkv, 3, axis=2))
        query, key, value = self.split(qkv)
        weights = ops.softmax(self._logits(query, key), axis=-1)
        weights = capture(weights) if capture else weights
        weights = self.attention_dropout(weights, training=training)
        return ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))

    def call(self, tokens, class_token_only=False, training=False):
        if class_token_only:
            return self.out(attend_from_class_token(self, tokens, training))[:, None]  # (B, 1, D)
        forward = override_of(self, "forward", training)
        if forward and not (training and override_of(self, "attention_weights", training)):
            return forward(tokens)
        attended = self._attend(self.project(tokens), training)
        return unflatten_tokens(self.out(ops.reshape(attended, (-1, tokens.shape[-1]))), tokens)
