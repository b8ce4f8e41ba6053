"""Grid of embeddings -> token sequence, and back.

B batch, h w patch grid, N tokens, D width.
"""

from keras import ops

from keras_vit.layers.base import Layer, require_rank


class GridToTokens(Layer):
    """Lays a grid out as a sequence, row by row.

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
    """Lays the patch tokens of a sequence out on the grid they came from.

    Args:
        prefix_tokens: tokens in front of the patches (the class token), left out.

    Input: tokens (B, prefix_tokens + h * w, D) and the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, h, w, D).
    """

    def __init__(self, prefix_tokens: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, grid_shape):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")

    def compute_output_shape(self, tokens_shape, grid_shape):
        return (*grid_shape[:3], tokens_shape[-1])

    def call(self, tokens, grid):
        _, h, w, _ = ops.shape(grid)
        return ops.reshape(tokens[:, self.prefix_tokens :], (-1, h, w, tokens.shape[-1]))


class ClassToken(Layer):
    """Puts one learned token in front of the sequence (section 3.1, equation 1).

    Input shape: (B, N, D). Output shape: (B, 1 + N, D).
    """

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        self.token = self.add_weight(name="token", shape=(1, 1, input_shape[-1]), initializer="zeros")

    def compute_output_shape(self, input_shape):
        batch, tokens, width = input_shape
        return (batch, tokens and tokens + 1, width)

    def call(self, tokens):
        token = ops.broadcast_to(self.token, (ops.shape(tokens)[0], 1, tokens.shape[-1]))
        return ops.concatenate([ops.cast(token, tokens.dtype), tokens], axis=1)
