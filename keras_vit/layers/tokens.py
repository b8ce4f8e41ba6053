"""Convert a grid of embeddings to a token sequence, and back.

B batch, h w patch grid, N tokens, D width.
"""

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


class PrefixTokens(Layer):
    """Put learned tokens in front of a sequence.

    A subclass names its tokens by `kind`, and `PREFIX_LAYERS` lists it. `keras_vit.token_layout` reads the names.

    Args:
        count: number of tokens.

    Input shape: (B, N, D). Output shape: (B, count + N, D).
    """

    kind = "token"
    initializer = "zeros"

    def __init__(self, count: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.count = count

    @property
    def token_names(self) -> tuple[str, ...]:
        """Names of the tokens in order: the kind, with a number where there are several."""
        return (self.kind,) if self.count == 1 else tuple(f"{self.kind}_{i}" for i in range(self.count))

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        shape = (1, self.count, input_shape[-1])
        self.token = self.add_weight(name="token", shape=shape, initializer=self.initializer)

    def compute_output_shape(self, input_shape):
        batch, tokens, width = input_shape
        return (batch, tokens and tokens + self.count, width)

    def call(self, tokens):
        token = ops.broadcast_to(self.token, (ops.shape(tokens)[0], self.count, tokens.shape[-1]))
        return ops.concatenate([ops.cast(token, tokens.dtype), tokens], axis=1)


class ClassToken(PrefixTokens):
    """Put one learned class token in front of a sequence (section 3.1, equation 1).

    Input shape: (B, N, D). Output shape: (B, 1 + N, D).
    """

    kind = "class"


# The layers that put tokens in front of the patches, in the order they are called: the tokens of the last layer come
# first. A key is the layer's name in a model, and the name of the row's field or builder's option with the count.
PREFIX_LAYERS = {"class_token": ClassToken}
