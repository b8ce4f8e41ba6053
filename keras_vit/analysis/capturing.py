"""Attention, read from a model while it computes.

L encoder blocks, B batch, h heads, N tokens, H W C image, (down, across) patch grid.
"""

from dataclasses import replace

import keras
import numpy as np
from keras import ops

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
from keras_vit.models.model_interface import model_interface
from keras_vit.models.token_layout import token_layout
from keras_vit.private import output_of


def capture(model: keras.Model, images, batch_size: int = 32) -> Attention:
    """Read a model's attention weights, in one forward pass, without rebuilding, retraining or changing it.

    Args:
        model: a model with encoder blocks, whatever its head.
        images: (B, H, W, C) as the model takes them.
        batch_size: images that go through the model at once.

    Raises:
        ValueError: `model` has no encoder blocks, or the images are not of its input shape or range.
    """
    model = flattened(model)
    blocks, probes = attention_layers(model)
    embedding = [layer for layer in model.layers if isinstance(layer, PatchEmbedding)][-1]
    images = as_input(model, images)
    ends = [output_of(model, layer) for layer in (embedding, (probes or blocks)[-1])]
    forward = keras.Model(model.inputs[0], ends)
    weights = probe = grid = None
    for start in range(0, len(images), batch_size):
        here = slice(start, start + batch_size)
        with capture_attention([block.attention for block in blocks] + probes) as seen:
            grid = forward(images[here], training=False)[0].shape[1:3]
        *of_blocks, last = seen if probes else (*seen, None)
        if weights is None:
            weights = np.empty((len(blocks), len(images), *of_blocks[0].shape[1:]), "float32")
            probe = np.empty((len(images), last.shape[1], last.shape[3]), "float32") if probes else None
        for block, found in zip(weights, of_blocks, strict=True):
            block[here] = ops.convert_to_numpy(ops.cast(found, "float32"))
        if probes:
            probe[here] = ops.convert_to_numpy(ops.cast(last, "float32"))[:, :, 0]
    grid = tuple(int(side) for side in grid)
    return Attention(
        weights=weights,
        probe=probe,
        layout=replace(token_layout(model), grid=grid),
        pooling=_pooling(model),
        patch_size=pixels_of_patch(embedding, images.shape[1:3], grid),
    )


def attention_layers(model: keras.Model) -> tuple[list, list]:
    """The encoder blocks of a model, in order, and the attention pooling where it has one, in a list.

    Raises:
        ValueError: `model` has no encoder blocks; the sentence says what it has.
    """
    model = flattened(model)
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    if not blocks:
        maps = [layer.name for layer in model.layers if layer.name.startswith("stage") and "_unit" not in layer.name]
        kinds = ", ".join(sorted({type(layer).__name__ for layer in model.layers}))
        has = f", which has no attention; it has the feature maps {', '.join(maps)}" if maps else f" of {kinds}"
        raise ValueError(f"model expected encoder blocks to read attention from, received {model.name!r}{has}.")
    return blocks, [layer for layer in model.layers if isinstance(layer, AttentionPooling)]


def _pooling(model):
    """Which queries the model's answer is read from: `token`, `gap` or `map`."""
    pools = [layer for layer in model.layers if isinstance(layer, TokenPooling)]
    if any(isinstance(pool, AttentionPooling) for pool in pools):
        return "map"
    gap = isinstance(pools[-1], MeanPooling) if pools else token_layout(model).class_token is None
    return "gap" if gap else "token"


def attention_maps(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Every attention weight of every block: (B, H, W, C) -> (L, B, h, N, N), rows summing to 1.

    Args and raises: as `capture`.
    """
    return capture(model, images, batch_size).weights


def class_attention(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Attention to each patch from where the model's answer is read: (B, H, W, C) -> (L, B, h, down, across).

    That is the class token's row of every block; for a `gap` head the mean over the queries; for a `map` head the
    probe's attention, and L = 1 because only the pooling has a probe. The class token's own slot is left out, so a
    map sums to at most 1.

    Args and raises: as `capture`.
    """
    return capture(model, images, batch_size).read_out()


def rollout_maps(model: keras.Model, images, residual: bool = True, batch_size: int = 32) -> np.ndarray:
    """Attention rollout from where the model's answer is read: (B, H, W, C) -> (B, down, across).

    Args and raises: as `rollout` and `capture`.
    """
    return capture(model, images, batch_size).rollout(residual)


def pixels_of_patch(embedding: PatchEmbedding, image_size: tuple[int, int], grid: tuple[int, int]):
    """(height, width) of a patch in the image: its own where it is cut from there, which may leave a rest at the right
    and bottom."""
    if all(side // patch == n for side, patch, n in zip(image_size, embedding.patch_size, grid, strict=True)):
        return embedding.patch_size
    return tuple(side / n for side, n in zip(image_size, grid, strict=True))


def as_input(model: keras.Model, images) -> np.ndarray:
    """`images` as an array.

    Raises:
        ValueError: they are not of the model's input shape, or pixels 0..255 where the model takes [-1, 1].
    """
    images = np.asarray(images)
    expected = tuple(model.inputs[0].shape)
    sides = zip(expected[1:], images.shape[1:], strict=False)
    if images.ndim != len(expected) or not len(images) or any(side not in (None, given) for side, given in sides):
        shape = ", ".join("any" if side is None else str(side) for side in expected[1:])
        raise ValueError(f"images expected shape (batch, {shape}), received {images.shape}.")
    low, high = float(images.min()), float(images.max())
    if not model_interface(model).takes_pixels and (images.dtype.kind in "ui" or (low >= 0 and high > 2)):
        raise ValueError(
            f"images expected values in [-1, 1], as `preprocess_input` scales them, received {images.dtype} in "
            f"{low:g}..{high:g}."
        )
    return images
