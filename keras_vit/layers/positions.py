"""The other kinds of positions (appendix D.4): 2-D, fixed sines and cosines, none.

B batch, h w patch grid, N tokens, D width.
"""

from typing import Any

import keras
from keras import ops

from keras_vit.layers.embedding import Positions
from keras_vit.layers.resize_positions import interpolation


def resized_side(embedding, side):
    """Return the embedding (length, width) of one axis, resized to `side` patches."""
    if isinstance(side, int) and side == embedding.shape[0]:
        return ops.convert_to_tensor(embedding)
    return ops.matmul(interpolation(side, embedding.shape[0], embedding.dtype), embedding)


class PositionEmbedding2D(Positions):
    """Adds learned embeddings of the column and the row to every patch token (appendix D.4, "2-D").

    Each has half of the token's width, and they are concatenated as [column; row]. The class token has an embedding of
    its own, as in the 1-D embedding; the paper does not state one.

    Args:
        grid: patches (down, across) of the stored embeddings.
        prefix_tokens: tokens in front of the patches (the class token).
        conversion: how loaded embeddings were converted; saved in the config.

    Input: tokens (B, prefix_tokens + h * w, D) and, if the image size is free at run time, the embedded patches
    (B, h, w, any). The embeddings are then resized to the grid of the patches, as the 1-D embedding is. Output shape:
    the shape of the tokens.

    Raises:
        ValueError: D is odd, or the number of tokens does not match the grid.
    """

    def __init__(
        self, grid: int | tuple[int, int], prefix_tokens: int = 0, conversion: str | None = None, **kwargs: Any
    ):
        super().__init__(grid, prefix_tokens, **kwargs)
        self.conversion = conversion

    def build(self, tokens_shape, patches_shape=None):
        width = tokens_shape[-1]
        if width % 2:
            raise ValueError(f"{self.name} expected an even width, received {width}.")
        super().build(tokens_shape, patches_shape)
        small = keras.initializers.RandomNormal(stddev=0.02)
        self.across = self.add_weight(name="across", shape=(self.grid[1], width // 2), initializer=small)
        self.down = self.add_weight(name="down", shape=(self.grid[0], width // 2), initializer=small.clone())
        if self.prefix_tokens:
            shape = (self.prefix_tokens, width)
            self.prefix = self.add_weight(name="prefix", shape=shape, initializer=small.clone())

    def call(self, tokens, patches=None):
        h, w = self.grid if patches is None else ops.shape(patches)[1:3]
        across, down = resized_side(self.across, w), resized_side(self.down, h)
        half = tokens.shape[-1] // 2
        table = ops.concatenate(
            [ops.broadcast_to(across[None], (h, w, half)), ops.broadcast_to(down[:, None], (h, w, half))], axis=-1
        )
        table = ops.reshape(table, (1, h * w, 2 * half))
        if self.prefix_tokens:
            table = ops.concatenate([ops.cast(self.prefix, table.dtype)[None], table], axis=1)
        return tokens + ops.cast(table, tokens.dtype)


class FactorizedPositions(Positions):
    """Adds a learned embedding of the row and one of the column to every patch token (NaViT, arXiv 2307.06304).

    Args:
        grid: patches (down, across) of the stored embeddings.
        prefix_tokens: tokens in front of the patches, to which nothing is added.
        conversion: how loaded embeddings were converted; saved in the config.
        resize: the method by which the publisher of the loaded embeddings resizes them; saved in the config.

    Input and output: as `PositionEmbedding2D`.

    Raises:
        ValueError: the number of tokens does not match the grid.
    """

    def __init__(
        self,
        grid: int | tuple[int, int],
        prefix_tokens: int = 0,
        conversion: str | None = None,
        resize: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(grid, prefix_tokens, **kwargs)
        self.conversion = conversion
        self.resize = resize

    def build(self, tokens_shape, patches_shape=None):
        super().build(tokens_shape, patches_shape)
        for name, side in zip(("down", "across"), self.grid, strict=True):
            small = keras.initializers.RandomNormal(stddev=0.02)
            setattr(self, name, self.add_weight(name=name, shape=(side, tokens_shape[-1]), initializer=small))

    def call(self, tokens, patches=None):
        h, w = self.grid if patches is None else ops.shape(patches)[1:3]
        down, across = resized_side(self.down, h), resized_side(self.across, w)
        table = ops.reshape(down[:, None] + across[None], (1, -1, tokens.shape[-1]))
        return tokens + ops.cast(ops.pad(table, [[0, 0], [self.prefix_tokens, 0], [0, 0]]), tokens.dtype)


class NoPositions(Positions):
    """Stores the grid and adds nothing. Used for models without positions, or with relative positions in the blocks.

    Args:
        grid: patches (down, across) of the model's own image size.
        prefix_tokens: tokens in front of the patches (the class token).

    Input: tokens (B, prefix_tokens + h * w, D) and, if the image size is free at run time, the embedded patches
    (B, h, w, any). Output shape: the shape of the tokens.
    """

    def call(self, tokens, patches=None):
        return tokens


class SinCosPositions(Positions):
    """Adds fixed sine-cosine embeddings of the column and the row to every patch token.

    This is the two-dimensional embedding of MoCo v3 (arXiv 2104.02057) and of "Better plain ViT baselines" (arXiv
    2205.01580). It has D / 4 wavelengths, from 2 pi to 10,000 times 2 pi, both included. Zeros are added to a class
    token.

    Args:
        grid: patches (down, across) of the model's own image size.
        prefix_tokens: tokens in front of the patches (the class token).

    Input: tokens (B, prefix_tokens + h * w, D) and, if the image size is free at run time, the embedded patches
    (B, h, w, any). Output shape: the shape of the tokens.

    Raises:
        ValueError: D is not a multiple of 4, or less than 8, or the number of tokens does not match the grid.
    """

    @staticmethod
    def _steps(frequencies):
        """Return the number of steps from frequency 1 to 1 / 10,000."""
        return frequencies - 1

    def build(self, tokens_shape, patches_shape=None):
        if tokens_shape[-1] % 4 or tokens_shape[-1] < 8:
            raise ValueError(f"{self.name} expected a width of 8, 12, 16 and so on, received {tokens_shape[-1]}.")
        super().build(tokens_shape, patches_shape)

    def call(self, tokens, patches=None):
        h, w = self.grid if patches is None else ops.shape(patches)[1:3]
        quarter = tokens.shape[-1] // 4
        frequency = ops.power(10_000.0, -ops.arange(quarter, dtype="float32") / self._steps(quarter))
        down, across = (
            ops.cast(ops.arange(side), "float32")[:, None] * frequency  # (side, D / 4)
            for side in (h, w)
        )
        down = ops.broadcast_to(down[:, None], (h, w, quarter))
        across = ops.broadcast_to(across[None], (h, w, quarter))
        code = ops.concatenate([ops.sin(across), ops.cos(across), ops.sin(down), ops.cos(down)], axis=-1)
        code = ops.reshape(code, (1, h * w, 4 * quarter))
        code = ops.pad(code, [[0, 0], [self.prefix_tokens, 0], [0, 0]])
        return tokens + ops.cast(code, tokens.dtype)


class MAEPositions(SinCosPositions):
    """Adds the fixed sine-cosine embeddings of masked autoencoders (arXiv 2111.06377) to every patch token.

    They differ from those of `SinCosPositions` in the wavelengths: the k-th of D / 4 is 10,000 ** (4 k / D) times 2 pi,
    so that 10,000 times 2 pi itself is left out. I-JEPA (arXiv 2301.08243) has the same. Arguments, shapes and errors
    are those of `SinCosPositions`.
    """

    @staticmethod
    def _steps(frequencies):
        return frequencies
