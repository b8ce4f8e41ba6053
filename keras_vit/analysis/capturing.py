"""Capture the attention weights of a model in one forward pass.

L encoder blocks, B batch, h heads, N tokens, H W C image, (down, across) patch grid.
"""

from dataclasses import replace

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input, to_float32
from keras_vit.analysis.attention import Attention
from keras_vit.composed import flattened
from keras_vit.layers import (
    AttentionPooling,
    EncoderBlock,
    MeanPooling,
    PatchEmbedding,
    TokenPooling,
    capture_attention,
)
from keras_vit.models.token_layout import token_layout
from keras_vit.private import output_of


def capture(model: keras.Model, images, batch_size: int = 32) -> Attention:
    """Capture a model's attention weights in one forward pass. The model is not changed.

    Args:
        model: a model with encoder blocks, and any head.
        images: (B, H, W, C) in the model's input range.
        batch_size: images per forward pass.

    Raises:
        ValueError: `model` has no encoder blocks, or the images do not have its input shape or range.
    """
    model = flattened(model)
    blocks, poolings = encoder_blocks(model)
    embedding = [layer for layer in model.layers if isinstance(layer, PatchEmbedding)][-1]
    images = as_model_input(model, images)
    forward = keras.Model(model.inputs[0], [output_of(model, layer) for layer in (embedding, (poolings or blocks)[-1])])
    weights = probe = grid = None
    for start in range(0, len(images), batch_size):
        batch = slice(start, start + batch_size)
        with capture_attention([block.attention for block in blocks] + poolings) as captured:
            grid = forward(images[batch], training=False)[0].shape[1:3]
        *block_weights, probe_weights = captured if poolings else (*captured, None)
        if weights is None:
            weights = np.empty((len(blocks), len(images), *block_weights[0].shape[1:]), "float32")
            probe = np.empty((len(images), *probe_weights.shape[1::2]), "float32") if poolings else None  # (B, h, N)
        for target, tensor in zip(weights, block_weights, strict=True):
            target[batch] = to_float32(tensor)
        if poolings:
            probe[batch] = to_float32(probe_weights)[:, :, 0]
    grid = tuple(int(side) for side in grid)
    return Attention(
        weights=weights,
        probe=probe,
        layout=replace(token_layout(model), grid=grid),
        pooling=_pooling(model),
        patch_size=patch_size_in_image(embedding, images.shape[1:3], grid),
        differential=any(is_differential(block) for block in blocks),
        windows=any(has_windows(block) for block in blocks),
    )


def encoder_blocks(model: keras.Model) -> tuple[list, list]:
    """Return the encoder blocks of a model in order, and a list with its attention pooling or an empty list.

    Raises:
        ValueError: `model` has no encoder blocks.
    """
    model = flattened(model)
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    if not blocks:
        maps = [layer.name for layer in model.layers if layer.name.startswith("stage") and "_unit" not in layer.name]
        kinds = ", ".join(sorted({type(layer).__name__ for layer in model.layers}))
        description = f"which has no attention but the feature maps {', '.join(maps)}" if maps else f"with {kinds}"
        raise ValueError(f"model expected encoder blocks, received {model.name!r}, {description}.")
    return blocks, [layer for layer in model.layers if isinstance(layer, AttentionPooling)]


def is_differential(block) -> bool:
    """Return whether an encoder block has differential attention."""
    return getattr(block.attention, "differential", None) is not None


def has_windows(block) -> bool:
    """Return whether the patches of an encoder block attend to those of their window only."""
    return bool(getattr(block.attention, "window", 0))


def attends_by_shares(model: keras.Model) -> bool:
    """Return whether a flat model has encoder blocks whose attention weights are positive and sum to 1.

    Those of windows sum to less where padding has a share.
    """
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    return bool(blocks) and not any(is_differential(block) or has_windows(block) for block in blocks)


def _pooling(model):
    """Return `token`, `gap` or `map`."""
    poolings = [layer for layer in model.layers if isinstance(layer, TokenPooling)]
    if any(isinstance(pooling, AttentionPooling) for pooling in poolings):
        return "map"
    gap = isinstance(poolings[-1], MeanPooling) if poolings else token_layout(model).class_token is None
    return "gap" if gap else "token"


def attention_maps(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Return the attention weights of every block: (L, B, h, N, N).

    Rows sum to 1, with differential attention to less. In a block with windows, the weights between windows are 0, and
    rows sum to less than 1 where padding has a share.

    Args and raises: as `capture`.
    """
    return capture(model, images, batch_size).weights


def class_attention(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Return the attention to each patch from the pooled query: (L, B, h, down, across).

    The query is the class token, the mean over the queries for a `gap` head, or the probe for a `map` head, with
    L = 1. Attention to prefix tokens is left out, so that a map sums to at most 1.

    Args and raises: as `capture`.
    """
    return capture(model, images, batch_size).pooled_attention()


def rollout_maps(model: keras.Model, images, residual: bool = True, batch_size: int = 32) -> np.ndarray:
    """Return the attention rollout from the pooled output: (B, down, across).

    Args and raises: as `rollout` and `capture`.
    """
    return capture(model, images, batch_size).rollout(residual)


def patch_size_in_image(embedding: PatchEmbedding, image_size: tuple[int, int], grid: tuple[int, int]):
    """Return (height, width) of a patch in pixels of the image.

    Without a stem this is the embedding's patch size. With a stem it is the image size divided by the grid.
    """
    if all(side // patch == n for side, patch, n in zip(image_size, embedding.patch_size, grid, strict=True)):
        return embedding.patch_size
    return tuple(side / n for side, n in zip(image_size, grid, strict=True))
