"""Layers of sequences of patches, padded to one length. Each image has a grid of its own (NaViT, arXiv 2307.06304).

B batch, N patches with padding, P patch height or width, C channels, D width, T tokens in front of the patches.
"""

from typing import Any

from keras import ops

from keras_vit.layers.base import Layer, flatten_tokens, require_rank, unflatten_tokens
from keras_vit.layers.embedding import PatchEmbedding, PositionEmbedding
from keras_vit.layers.pooling import MeanPooling
from keras_vit.layers.position_weights import position_weights
from keras_vit.layers.positions import FactorizedPositions


class SequenceEmbedding(PatchEmbedding):
    """Projects the flattened patches of a sequence. The weights are those of `PatchEmbedding`.

    Args: as `PatchEmbedding`.

    Input shape: (B, N, P * P * C), the pixels of a patch in row-major order. Output shape: (B, N, D).

    Raises:
        ValueError: the input is no sequence of patches, or a patch has another number of pixels.
    """

    def build(self, patches_shape):
        require_rank(self, patches_shape, 3, "patches (batch, patches, pixels)")
        height, width = self.patch_size
        channels, remainder = divmod(patches_shape[-1], height * width)
        if remainder or not channels:
            raise ValueError(
                f"{self.name} expected patches of {height} * {width} * channels values, received {patches_shape[-1]}."
            )
        super().build((None, height, width, channels))

    def compute_output_shape(self, patches_shape):
        return (*patches_shape[:2], self.width)

    def call(self, patches, training=False):
        flat = ops.matmul(flatten_tokens(patches), ops.reshape(self.kernel, (-1, self.width)))
        flat = self.add_bias(flat, training) if self.use_bias else flat
        return unflatten_tokens(flat, patches)


def _of_patches(layer, tokens, coordinates, valid) -> tuple:
    """Return coordinates (B, N, 2) and validity (B, N) of the patch tokens.

    Raises:
        ValueError: they do not have an entry for each patch. In a graph, the reshape raises the backend's error.
    """
    patches = tokens.shape[1] and tokens.shape[1] - layer.prefix_tokens
    received = coordinates.shape[1], valid.shape[1]
    if any(isinstance(length, int) and isinstance(patches, int) and length != patches for length in received):
        raise ValueError(
            f"{layer.name} expected coordinates and valid of {patches} patches, received those of "
            f"{received[0]} and {received[1]}."
        )
    batch, length = ops.shape(tokens)[0], ops.shape(tokens)[1] - layer.prefix_tokens
    return ops.reshape(coordinates, (batch, length, 2)), ops.reshape(valid, (batch, length))


def _behind_prefix(layer, positions, prefix=None):
    """Put the positions of the tokens in front of the patches before (B, N, D); zeros if they have none."""
    if prefix is None:
        return ops.pad(positions, ((0, 0), (layer.prefix_tokens, 0), (0, 0)))
    prefix = ops.broadcast_to(prefix, (ops.shape(positions)[0], *prefix.shape[1:]))
    return ops.concatenate([prefix, positions], axis=1)


class SequencePositions(PositionEmbedding):
    """Adds a `PositionEmbedding`, resized to the grid of each image, to the tokens of padded sequences.

    Args: as `PositionEmbedding`. `resize` is one of `keras_vit.layers.position_weights.METHODS`.

    Input: tokens (B, T + N, D), coordinates (B, N, 2), which are row and column of each patch, and valid (B, N), which
    is False for padding. An image's grid ends at its last row and column. Output shape: (B, T + N, D).

    Raises:
        ValueError: the lengths of the inputs differ.
    """

    def build(self, tokens_shape, coordinates_shape, valid_shape):
        super().build(tokens_shape, coordinates_shape)

    def compute_output_shape(self, tokens_shape, coordinates_shape, valid_shape):
        return tokens_shape

    def call(self, tokens, coordinates, valid):
        places = _of_patches(self, tokens, coordinates, valid)
        down, across = position_weights(*places, self.grid, self.resize)
        embedding, stored = ops.cast(self.embedding, "float32"), self.stored_prefix
        weights = ops.expand_dims(down, 3) * ops.expand_dims(across, 2)  # (B, N, h, w)
        weights = ops.reshape(weights, (*ops.shape(down)[:2], self.grid[0] * self.grid[1]))
        positions = ops.matmul(weights, embedding[0, stored:])
        positions = _behind_prefix(self, positions, embedding[:, :stored] if stored else None)
        return tokens + ops.cast(positions, tokens.dtype)


class SequenceFactorizedPositions(FactorizedPositions):
    """Adds `FactorizedPositions`, resized to the grid of each image, to the tokens of padded sequences.

    Args: as `FactorizedPositions`. `resize` is one of `keras_vit.layers.position_weights.METHODS`.

    Input and output: as `SequencePositions`.

    Raises:
        ValueError: the lengths of the inputs differ.
    """

    def build(self, tokens_shape, coordinates_shape, valid_shape):
        super().build(tokens_shape, coordinates_shape)

    def compute_output_shape(self, tokens_shape, coordinates_shape, valid_shape):
        return tokens_shape

    def call(self, tokens, coordinates, valid):
        places = _of_patches(self, tokens, coordinates, valid)
        down, across = position_weights(*places, self.grid, self.resize)
        positions = ops.matmul(down, ops.cast(self.down, "float32"))
        positions = positions + ops.matmul(across, ops.cast(self.across, "float32"))
        return tokens + ops.cast(_behind_prefix(self, positions), tokens.dtype)


class PaddingMask(Layer):
    """Returns what is added to attention logits so that no token attends to padding.

    Args:
        prefix_tokens: T, which are never padding.

    Input: valid (B, N), which is False for padding. Output shape: (B, 1, 1, T + N), 0 or a large negative value.
    """

    def __init__(self, prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens

    def build(self, valid_shape):
        require_rank(self, valid_shape, 2, "valid (batch, patches)")

    def compute_output_shape(self, valid_shape):
        batch, patches = valid_shape
        return (batch, 1, 1, patches and patches + self.prefix_tokens)

    def call(self, valid):
        lowest = -3e4 if self.compute_dtype == "float16" else -1e9
        mask = ops.where(ops.cast(valid, "bool"), 0.0, lowest)
        mask = ops.pad(mask, ((0, 0), (self.prefix_tokens, 0)))
        return ops.cast(mask[:, None, None], self.compute_dtype)


class MaskedMeanPooling(MeanPooling):
    """Returns the mean of the patch tokens that are no padding.

    Args:
        prefix_tokens: T, the tokens in front of the patches, which are skipped.

    Input: tokens (B, T + N, D) and valid (B, N). Output shape: (B, D).
    """

    def build(self, tokens_shape, valid_shape):
        super().build(tokens_shape)

    def compute_output_shape(self, tokens_shape, valid_shape):
        return super().compute_output_shape(tokens_shape)

    def call(self, tokens, valid):
        weights = ops.cast(ops.cast(valid, "bool"), "float32")
        weights = weights / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
        weights = ops.cast(ops.expand_dims(weights, 1), tokens.dtype)  # (B, 1, N)
        return ops.squeeze(ops.matmul(weights, tokens[:, self.prefix_tokens :]), axis=1)
