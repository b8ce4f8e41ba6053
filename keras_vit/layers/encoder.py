"""The pre-LN Transformer encoder block and its layer normalisation (section 3.1, equations 2 and 3).

B batch, N tokens, D width.
"""

from typing import Any

from keras import ops

from keras_vit.layers.attention import MultiHeadSelfAttention
from keras_vit.layers.attention_options import AttentionWithOptions, has_class_token_only
from keras_vit.layers.base import Layer, is_plain_dense, require_rank, require_rate
from keras_vit.layers.capture import is_captured
from keras_vit.layers.dropout import Dropout, StochasticDepth
from keras_vit.layers.extended_mlp import ExtendedMLP
from keras_vit.layers.inner_norm import norm_class
from keras_vit.layers.layer_scale import add_scale
from keras_vit.layers.local_conv import require_kernel_size
from keras_vit.layers.mlp import MLPBlock
from keras_vit.layers.override import override_of


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalise over the last axis in float32: (..., D) of any dtype -> float32.

    The variance is written as `d = x - mean; mean(d * d)`, which converts to integer TFLite best.
    """
    x = ops.cast(x, "float32")
    deviation = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(deviation * deviation, axis=-1, keepdims=True)
    return deviation * ops.rsqrt(variance + epsilon) * gamma + beta


class LayerNorm(Layer):
    """Layer normalisation over the last axis, computed in float32.

    Args:
        epsilon: value added to the variance; 1e-6 in the official code, 1e-12 in transformers.

    Input and output shape: (..., D).
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any):
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


class EncoderBlock(Layer):
    """x += attention(norm(x)); x += mlp(norm(x)), with dropout and stochastic depth on both branches.

    Args:
        num_heads: heads of the attention; must divide the width.
        mlp_dim: width between the MLP's dense layers.
        activation: activation of the MLP.
        layer_norm_epsilon: epsilon of both norms.
        dropout_rate: rate after the output of attention and after both dense layers of the MLP, in [0, 1).
        attention_dropout_rate: rate on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of this block, in [0, 1).
        mlp_kernel_size: kernel size of the depth-wise convolution inside the MLP, odd; 0 for none.
        prefix_tokens: number of tokens in front of the patches (the class token); the convolution skips them.
        relative_positions: whether the attention uses relative positions.
        layer_scale: initial value of the `LayerScale` at the end of both branches; None for none.
        norm: kind of both norms, `layer` or `rms` (RMSNorm).
        mlp_options: further arguments of `ExtendedMLP`; None for a plain MLP.
        attention_options: further arguments of `AttentionWithOptions`; None for plain attention.

    Input: tokens (B, N, D) and, with an `mlp_kernel_size`, or with rotary positions and a free image size, the embedded
    patches (B, h, w, any), whose grid is used.
    Output shape: (B, N, D); with `class_token_only` (B, 1, D), which `compute_output_shape` ignores.

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
        layer_scale: float | None = None,
        norm: str = "layer",
        mlp_options: dict | None = None,
        attention_options: dict | None = None,
        **kwargs: Any,
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
        self.layer_scale = layer_scale
        self.norm = norm
        self.mlp_options = mlp_options
        self.attention_options = attention_options

    def build(self, tokens_shape, patches_shape=None):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        norm, epsilon = norm_class(self.norm), {"layer_norm_epsilon": self.layer_norm_epsilon}
        self.attention_norm = self.make_part(norm, self.layer_norm_epsilon, name="attention_norm")
        kind, options = MultiHeadSelfAttention, {}
        if self.attention_options:
            kind, options = AttentionWithOptions, epsilon | self.attention_options
        attention = (self.num_heads, self.attention_dropout_rate, self.relative_positions)
        self.attention = self.make_part(kind, *attention, **options, name="attention")
        self.mlp_norm = self.make_part(norm, self.layer_norm_epsilon, name="mlp_norm")
        kind, options = MLPBlock, {"kernel_size": self.mlp_kernel_size, "prefix_tokens": self.prefix_tokens}
        if self.mlp_options:
            kind, options = ExtendedMLP, epsilon | self.mlp_options
        self.mlp = self.make_part(kind, self.mlp_dim, self.activation, self.dropout_rate, **options, name="mlp")
        for part in (self.attention_norm, self.attention, self.mlp_norm):
            part.build(tokens_shape)
        self.mlp.build(tokens_shape, patches_shape)
        self.attention_scale = add_scale(self, "attention_scale", tokens_shape)
        self.mlp_scale = add_scale(self, "mlp_scale", tokens_shape)
        self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy)
        self.drop_path = StochasticDepth(self.drop_path_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def __call__(self, *args, **options):
        if override_of(self, "class_token_only"):  # before Keras's own method, so that a recomputation has it, too
            options["class_token_only"] = True
        return super().__call__(*args, **options)

    @property
    def supports_class_token_only(self) -> bool:
        """Whether the block can be called with `class_token_only`, which uses the kernels of attention directly."""
        supported = has_class_token_only(self.attention) and is_plain_dense(self.attention.qkv)
        return supported and not (self.mlp_kernel_size or is_captured(self.attention))

    def call(self, tokens, patches=None, lines=None, class_token_only=False, training=False):
        if class_token_only and not self.supports_class_token_only:
            raise ValueError("class_token_only expected False for a block with relative positions, a convolution, "
                             "captured attention or an attention of another class, received True.")  # fmt: skip
        options = {"class_token_only": class_token_only} | ({"patches": patches} if self.attention_options else {})
        branch = self.attention(self.attention_norm(tokens), **options, training=training)
        branch = self.dropout(branch, training=training)
        branch = branch if self.attention_scale is None else self.attention_scale(branch)
        tokens = tokens[:, :1] if class_token_only else tokens
        tokens = tokens + self.drop_path(branch, lines=lines, training=training)
        branch = self.mlp(self.mlp_norm(tokens), patches, training=training)
        branch = branch if self.mlp_scale is None else self.mlp_scale(branch)
        return tokens + self.drop_path(branch, lines=lines, training=training)

    def attention_weights(self, tokens: Any) -> Any:
        """Return the attention weights that the block computes on its input: (B, N, D) -> (B, h, N, N)."""
        return self.attention.attention_weights(self.attention_norm(tokens))
