"""Masked patch prediction: corrupt patches, and predict their content (appendix B.1.2).

B batch, N patches, K of them corrupted, D width.
"""

from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Dense, Layer, require_rank


class PatchCorruption(Layer):
    """Replaces the embeddings of some patches by a learned mask token or by another patch's embedding.

    Input: the patch tokens (B, N, D), and sources (B, N). A source of 0 means the mask token, and i means the embedding
    of patch i - 1. Output shape: (B, N, D).
    """

    def build(self, tokens_shape, sources_shape):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        small = keras.initializers.RandomNormal(stddev=0.02)
        self.mask_token = self.add_weight(name="mask_token", shape=(1, 1, tokens_shape[-1]), initializer=small)

    def compute_output_shape(self, tokens_shape, sources_shape):
        return tokens_shape

    def call(self, tokens, sources):
        mask = ops.broadcast_to(self.mask_token, (ops.shape(tokens)[0], 1, tokens.shape[-1]))
        return take_each(ops.concatenate([ops.cast(mask, tokens.dtype), tokens], axis=1), sources)


class PatchPrediction(Layer):
    """Predicts the content of patches from their tokens by one linear layer, initialised to zeros.

    Args:
        units: number of outputs per patch.
        target: meaning of the outputs, saved for plots: `mean_colour`, `colours` or `pixels`.
        prefix_tokens: number of tokens in front of the patches (the class token).

    Input: tokens (B, prefix_tokens + N, D), and places (B, K), the indices of the patches. Output shape: (B, K, units).
    """

    def __init__(self, units: int, target: str = "mean_colour", prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units
        self.target = target
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, places_shape):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        self.dense = self.make_part(Dense, self.units, kernel_initializer="zeros", name="dense")
        self.dense.build((None, tokens_shape[-1]))

    def compute_output_shape(self, tokens_shape, places_shape):
        return (*places_shape[:2], self.units)

    def call(self, tokens, places):
        chosen = take_each(tokens, ops.cast(places, "int32") + self.prefix_tokens)  # (B, K, D)
        predicted = self.dense(ops.reshape(chosen, (-1, tokens.shape[-1])))
        return ops.reshape(predicted, (-1, ops.shape(places)[1], self.units))


def take_each(tokens, places):
    """Take the tokens at each sequence's own places, by one gather: (B, N, D) and (B, K) -> (B, K, D)."""
    batch, count = ops.shape(tokens)[0], ops.shape(tokens)[1]
    places = ops.cast(places, "int32") + ops.reshape(ops.arange(batch, dtype="int32") * count, (-1, 1))
    taken = ops.take(ops.reshape(tokens, (-1, tokens.shape[-1])), ops.reshape(places, (-1,)), axis=0)
    return ops.reshape(taken, (-1, ops.shape(places)[1], tokens.shape[-1]))
