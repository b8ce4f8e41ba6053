"""Flatten the grid of the patches to a token sequence, and convert it back.

B batch, h w patch grid, N tokens, D width.
"""

from typing import Any

from keras import ops

from keras_vit.layers.base import Layer, require_rank


class GridToTokens(Layer):
    """Flatten a grid to a sequence, row by row.

    Input shape: (B, h, w, D). Output shape: (B, h * w, D).
    """

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a grid (batch, height, width, features)")

    def compute_output_shape(self, input_shape):
        batch, h, w, width = input_shape
        return (batch, h * w if h and w else None, width)

    def call(self, grid):
        _, h, w, width = ops.shape(grid)
        return ops.reshape(grid, (-1, h * w, width))


class TokensToGrid(Layer):
    """Reshape the patch tokens of a sequence to their grid.

    Args:
        prefix_tokens: number of tokens in front of the patches, which are dropped.

    Input: tokens (B, prefix_tokens + h * w, D) and the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, h, w, D).
    """

    def __init__(self, prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, grid_shape):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")

    def compute_output_shape(self, tokens_shape, grid_shape):
        return (*grid_shape[:3], tokens_shape[-1])

    def call(self, tokens, grid):
        _, h, w, _ = ops.shape(grid)
        return ops.reshape(tokens[:, self.prefix_tokens :], (-1, h, w, tokens.shape[-1]))
