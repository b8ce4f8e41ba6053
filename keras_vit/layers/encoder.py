"""The pre-LN Transformer encoder block and its parts (section 3.1, equations 2 and 3).

B batch, N tokens, D width, h heads, d = D / h. Matrix products use flattened tokens (B * N, D): the bias fuses into the
matmul, and a free batch size costs no shape arithmetic.
"""

import math

import keras
from keras import ops

from keras_vit.layers.base import (
    Dense,
    Layer,
    flatten_tokens,
    is_plain_dense,
    require_rank,
    require_rate,
    unflatten_tokens,
)
from keras_vit.layers.capture import is_captured
from keras_vit.layers.class_token_attention import attend_from_class_token
from keras_vit.layers.dropout import Dropout, uniform
from keras_vit.layers.flash import HAS_FUSED_ATTENTION, fused_attention
from keras_vit.layers.layernorm import LayerNorm
from keras_vit.layers.mlp import MLPBlock, require_kernel_size
from keras_vit.layers.override import override_of


class StochasticDepth(Layer):
    """Drops whole examples of a residual branch while training and rescales the rest (arXiv 1603.09382).

    Args:
        rate: probability that an example's branch is dropped, in [0, 1).

    Input and output shape: (B, ...), or (B * lines, ...) where `lines` neighbours along the first axis are one example.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.rate = require_rate("rate", rate)
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, lines=None, training=False):
        if not training or self.rate == 0:
            return x
        count = ops.shape(x)[0] if lines is None else ops.shape(x)[0] // lines
        shape = (count,) + (1,) * (len(x.shape) - 1)
        kept = ops.cast(uniform(shape, self.seed_generator) >= self.rate, x.dtype)
        if lines is not None:
            kept = ops.reshape(ops.broadcast_to(kept, (count, lines, 1)), (-1, 1, 1))
        return x * kept / (1 - self.rate)


class MultiHeadSelfAttention(Layer):
    """Multi-head self-attention (appendix A).

    Query, key and value share one (D, 3 D) matrix product; each third is initialised as a D x D matrix.

    Args:
        num_heads: h; must divide the width.
        attention_dropout_rate: dropout on the attention weights, in [0, 1).
        relative_positions: whether the logits get the dot product of the query with a learned embedding of the offset
            between key and query in the sequence, the class token first (appendix D.4, "relative").

    Input and output shape: (B, N, D); with relative positions N is fixed when the layer is built. Called with
    `class_token_only` it returns the first token, (B, 1, D), and ignores relative positions.

    Raises:
        ValueError: `num_heads` does not divide the width, or with relative positions N is unknown or has changed.
    """

    def __init__(self, num_heads: int, attention_dropout_rate: float = 0.0, relative_positions: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout_rate = require_rate("attention_dropout_rate", attention_dropout_rate)
        self.relative_positions = relative_positions

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads expected a divisor of the width {width}, received {self.num_heads}.")
        glorot = keras.initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))
        self.qkv = self.make_part(Dense, 3 * width, kernel_initializer=glorot, name="qkv")
        self.qkv.build((None, width))
        self.out = self.make_part(Dense, width, name="out")
        self.out.build((None, width))
        if self.relative_positions:
            if input_shape[1] is None:
                raise ValueError(f"{self.name} expected a known number of tokens with relative positions, received "
                                 f"shape {tuple(input_shape)}.")  # fmt: skip
            shape = (2 * input_shape[1] - 1, width)  # row j: the key is j - (N - 1) tokens after the query
            small = keras.initializers.RandomNormal(stddev=0.02)
            self.offsets = self.add_weight(name="offsets", shape=shape, initializer=small)
        self.attention_dropout = Dropout(self.attention_dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _project(self, tokens):
        """Return query, key and value in one tensor: (B, N, 3, h, d)."""
        return self.by_head(self.qkv(flatten_tokens(tokens)), tokens)

    def by_head(self, flat, tokens):
        """Reshape the output of `qkv`, with the N of `tokens`: (B * N, 3 D) -> (B, N, 3, h, d)."""
        return ops.reshape(flat, (-1, ops.shape(tokens)[1], 3, self.num_heads, tokens.shape[-1] // self.num_heads))

    def split(self, qkv):
        """Return the scaled query (B, h, N, d), the transposed key (B, h, d, N) and the value (B, h, N, d)."""
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3, axis=0)  # each (B, h, N, d)
        return query * qkv.shape[-1] ** -0.5, ops.transpose(key, (0, 1, 3, 2)), value

    def _logits(self, query, key):
        """Return the attention logits: (B, h, N, d) and (B, h, d, N) -> (B, h, N, N)."""
        logits = ops.matmul(query, key)
        if not self.relative_positions:
            return logits
        tokens = self.offsets.shape[0] // 2 + 1
        if query.shape[2] not in (tokens, None):
            raise ValueError(f"{self.name} expected the {tokens} tokens that its relative positions are stored for, "
                             f"received {query.shape[2]}.")  # fmt: skip
        offsets = ops.reshape(self.offsets, (2 * tokens - 1, self.num_heads, query.shape[3]))
        offsets = ops.cast(ops.transpose(offsets, (1, 2, 0)), query.dtype)  # (h, d, 2 N - 1)
        return logits + relative_shift(ops.matmul(query, offsets[None]), tokens)

    def attention_weights(self, tokens):
        """Return the attention weights: (B, N, D) -> (B, h, N, N). Each row sums to 1."""
        query, key, _ = self.split(self._project(tokens))
        return ops.softmax(self._logits(query, key), axis=-1)

    def attend(self, qkv, training=False):
        """Return the attended values, flattened: (B, N, 3, h, d) -> (B * N, D)."""
        return ops.reshape(self._gathered(qkv, training), (-1, qkv.shape[3] * qkv.shape[4]))

    def _gathered(self, qkv, training):
        dropped = training and self.attention_dropout_rate
        capture = override_of(self, "attention_weights", training)
        if HAS_FUSED_ATTENTION and not (capture or self.relative_positions or dropped):
            return fused_attention(*ops.unstack(qkv, 3, axis=2))
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
        return unflatten_tokens(self.out(self.attend(self._project(tokens), training)), tokens)


def relative_shift(logits, tokens: int):
    """Shift relative-position logits to absolute key positions: (B, h, N, 2 N - 1) -> (B, h, N, N).

    out[q, k] = in[q, k - q + N - 1] (Music Transformer, arXiv 1809.04281). One value is added to each row, so that
    after the reshape each row starts one place further to the left.
    """
    heads, none = logits.shape[1], [0, 0]
    flat = ops.reshape(ops.pad(logits, [none, none, none, [0, 1]]), (-1, heads, 2 * tokens * tokens))
    flat = ops.pad(flat, [none, none, [0, tokens - 1]])
    return ops.reshape(flat, (-1, heads, tokens + 1, 2 * tokens - 1))[:, :, :tokens, tokens - 1 :]


class EncoderBlock(Layer):
    """x += attention(norm(x)); x += mlp(norm(x)), with dropout and stochastic depth on both branches.

    Args:
        num_heads: heads of the attention; must divide the width.
        mlp_dim: width between the MLP's dense layers.
        activation: the MLP's.
        layer_norm_epsilon: added to the variances of both norms.
        dropout_rate: after the attention's output and after both dense layers of the MLP, in [0, 1).
        attention_dropout_rate: on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of this block, in [0, 1).
        mlp_kernel_size: kernel size of the depth-wise convolution inside the MLP, odd; 0 for none.
        prefix_tokens: number of tokens in front of the patches (the class token); the convolution skips them.
        relative_positions: whether the attention uses relative positions.

    Input: tokens (B, N, D) and, with an `mlp_kernel_size`, the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, N, D). Called with `class_token_only`, where `supports_class_token_only`, it returns (B, 1, D).
    `compute_output_shape` does not say so.

    Raises:
        ValueError: `num_heads` does not divide the width, a rate or the kernel size is out of range, the patches are
            missing, or `class_token_only` is not supported.
    """

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-6,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        mlp_kernel_size: int = 0,
        prefix_tokens: int = 0,
        relative_positions: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout_rate = require_rate("dropout_rate", dropout_rate)
        self.attention_dropout_rate = require_rate("attention_dropout_rate", attention_dropout_rate)
        self.drop_path_rate = require_rate("drop_path_rate", drop_path_rate)
        self.mlp_kernel_size = require_kernel_size("mlp_kernel_size", mlp_kernel_size)
        self.prefix_tokens = prefix_tokens
        self.relative_positions = relative_positions

    def build(self, tokens_shape, patches_shape=None):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        policy = self.dtype_policy
        self.attention_norm = self.make_part(LayerNorm, self.layer_norm_epsilon, name="attention_norm")
        attention = (self.num_heads, self.attention_dropout_rate, self.relative_positions)
        self.attention = self.make_part(MultiHeadSelfAttention, *attention, name="attention")
        self.mlp_norm = self.make_part(LayerNorm, self.layer_norm_epsilon, name="mlp_norm")
        local = {"kernel_size": self.mlp_kernel_size, "prefix_tokens": self.prefix_tokens}
        self.mlp = self.make_part(MLPBlock, self.mlp_dim, self.activation, self.dropout_rate, **local, name="mlp")
        for part in (self.attention_norm, self.attention, self.mlp_norm):
            part.build(tokens_shape)
        self.mlp.build(tokens_shape, patches_shape)
        self.dropout = Dropout(self.dropout_rate, dtype=policy)
        self.drop_path = StochasticDepth(self.drop_path_rate, dtype=policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    @property
    def supports_class_token_only(self) -> bool:
        """Whether the block can be called with `class_token_only`, which reads the weights of attention directly."""
        attention = self.attention
        own = type(attention) is MultiHeadSelfAttention and is_plain_dense(attention.qkv)
        return own and not (self.mlp_kernel_size or self.relative_positions or is_captured(attention))

    def call(self, tokens, patches=None, lines=None, class_token_only=False, training=False):
        if class_token_only and not self.supports_class_token_only:
            raise ValueError("class_token_only expected False for a block with relative positions, a convolution, "
                             "captured attention or an attention of another class, received True.")  # fmt: skip
        branch = self.attention(self.attention_norm(tokens), class_token_only=class_token_only, training=training)
        branch = self.dropout(branch, training=training)
        tokens = tokens[:, :1] if class_token_only else tokens
        tokens = tokens + self.drop_path(branch, lines=lines, training=training)
        branch = self.mlp(self.mlp_norm(tokens), patches, training=training)
        return tokens + self.drop_path(branch, lines=lines, training=training)

    def attention_weights(self, tokens):
        """The attention weights this block computes on its input: (B, N, D) -> (B, h, N, N)."""
        return self.attention.attention_weights(self.attention_norm(tokens))
