"""Attention along one axis of the patch grid at a time (appendix D.6; arXiv 1912.12180).

B batch, h w patch grid, N = h w tokens, D width.
"""

from typing import Any

from keras import ops

from keras_vit.layers.attention import MultiHeadSelfAttention
from keras_vit.layers.base import Layer, require_rank, require_rate
from keras_vit.layers.encoder import EncoderBlock


class AxialAttention(Layer):
    """Attention along every row of a feature map, then along every column, both with relative positions (appendix D.6).

    It replaces a 3 x 3 convolution. Where that convolution has a stride, average pooling with the same stride follows,
    as in Axial-DeepLab (arXiv 2003.07853).

    Args:
        num_heads: heads of both attentions; must divide the channels.
        strides: stride of the average pooling; 1 for none.

    Input shape: (B, H, W, C), H and W known. Output shape: (B, H / strides, W / strides, C).

    Raises:
        ValueError: `num_heads` does not divide the channels, or the size of the map is unknown.
    """

    def __init__(self, num_heads: int, strides: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.strides = strides

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        for name, side in (("row", input_shape[2]), ("column", input_shape[1])):
            attention = self.make_part(MultiHeadSelfAttention, self.num_heads, relative_positions=True, name=name)
            setattr(self, name, attention)
            attention.build((None, side, input_shape[3]))

    def compute_output_shape(self, input_shape):
        batch, height, width, channels = input_shape
        return (batch, *(-(-side // self.strides) for side in (height, width)), channels)

    def call(self, x, training=False):
        _, h, w, channels = x.shape
        x = self.row(ops.reshape(x, (-1, w, channels)), training=training)  # (B * h, w, C)
        x = _swap_rows_and_columns(x, h)
        x = self.column(ops.reshape(x, (-1, h, channels)), training=training)  # (B * w, h, C)
        x = _swap_rows_and_columns(x, w)
        if self.strides == 1:
            return x
        return ops.average_pool(x, self.strides, self.strides, "same", data_format="channels_last")


def _swap_rows_and_columns(lines, count):
    """Swap rows and columns of maps that have `count` lines per image: (B * n, m, D) -> (B, m, n, D)."""
    _, length, width = ops.shape(lines)
    return ops.transpose(ops.reshape(lines, (-1, count, length, width)), (0, 2, 1, 3))


class AxialBlock(Layer):
    """A pre-LN encoder block along every row of the grid, then one along every column. There is no class token.

    Args:
        num_heads: heads of both attentions; must divide the width.
        mlp_dim: width between the dense layers of both MLPs.
        activation: activation of both MLPs.
        layer_norm_epsilon: epsilon of the norms.
        dropout_rate: as in `EncoderBlock`, in [0, 1).
        attention_dropout_rate: rate on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of both blocks, in [0, 1). All rows of an image are dropped together, and so
            are all columns.
        relative_positions: whether the attentions use relative positions.

    Input: tokens (B, h * w, D) and the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, h * w, D).

    Raises:
        ValueError: `num_heads` does not divide the width, a rate is out of range, or the number of tokens differs from
            the number of patches.
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
        relative_positions: bool = False,
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
        self.relative_positions = relative_positions

    def build(self, tokens_shape, patches_shape):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        require_rank(self, patches_shape, 4, "patches (batch, height, width, features)")
        h, w = patches_shape[1:3]
        if None not in (h, w, tokens_shape[1]) and h * w != tokens_shape[1]:
            raise ValueError(f"{self.name} expected the {h * w} tokens of its patches and no class token, received "
                             f"{tokens_shape[1]}.")  # fmt: skip
        names = ("activation", "layer_norm_epsilon", "dropout_rate", "attention_dropout_rate", "drop_path_rate")
        options = {name: getattr(self, name) for name in (*names, "relative_positions")}
        for name, side in (("row", w), ("column", h)):
            block = self.make_part(EncoderBlock, self.num_heads, self.mlp_dim, **options, name=name)
            setattr(self, name, block)
            block.build((None, side, tokens_shape[-1]))

    def compute_output_shape(self, tokens_shape, patches_shape):
        return tokens_shape

    def call(self, tokens, patches, training=False):
        _, h, w, _ = ops.shape(patches)
        width = tokens.shape[-1]
        x = self.row(ops.reshape(tokens, (-1, w, width)), lines=h, training=training)  # (B * h, w, D)
        x = _swap_rows_and_columns(x, h)
        x = self.column(ops.reshape(x, (-1, h, width)), lines=w, training=training)  # (B * w, h, D)
        return ops.reshape(_swap_rows_and_columns(x, w), (-1, h * w, width))
