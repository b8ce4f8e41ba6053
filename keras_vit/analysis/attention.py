"""What the tokens of a trained model attend to (section 4.5, appendix D.8).

L encoder blocks, B batch, h heads, N tokens, (down, across) patch grid.
"""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from keras_vit.layers import AttentionPooling, ClassToken, EncoderBlock, MeanPooling, PatchEmbedding, TokenPooling


@dataclass(frozen=True)
class Attention:
    """The attention of one batch of images, as `capture` reads it.

    Args:
        weights: (L, B, h, N, N) float32; `weights[l, b, a, q]` is what token q attends to and sums to 1.
        probe: (B, h, N), what the probe of a `map` head attends to; None for the other heads.
        grid: patches (down, across).
        prefix_tokens: tokens in front of the patches (the class token).
        pooling: `token`, `gap` or `map`: which queries the model's answer is read from.
        patch_size: pixels of the image (height, width) that a patch covers; an average under a stem.
    """

    weights: np.ndarray
    probe: np.ndarray | None
    grid: tuple[int, int]
    prefix_tokens: int
    pooling: str
    patch_size: tuple[float, float]

    def on_grid(self, rows: np.ndarray) -> np.ndarray:
        """Lay attention to tokens out on the patch grid, prefix tokens dropped: (..., N) -> (..., down, across)."""
        return rows[..., self.prefix_tokens :].reshape(*rows.shape[:-1], *self.grid)

    def read_out(self) -> np.ndarray:
        """What the model's answer is read from attends to, on the grid: (L, B, h, down, across); L = 1 for `map`."""
        if self.pooling == "map":
            return self.on_grid(self.probe[None])
        queries = self.weights[..., 0, :] if self.pooling == "token" else self.weights.mean(axis=-2)
        return self.on_grid(queries)

    def rollout(self, residual: bool = True) -> np.ndarray:
        """How much of each patch arrives where the answer is read: (B, down, across). See `rollout`."""
        tokens = self.weights.shape[-1]
        if self.pooling == "map":
            start = self.probe.mean(axis=1)
        elif self.pooling == "token":
            start = np.eye(1, tokens, dtype="float32")
        else:
            start = np.full((1, tokens), 1 / tokens, "float32")
        start = np.broadcast_to(start, (self.weights.shape[1], tokens))
        return self.on_grid(_flow(self.weights, start[:, None, :], residual)[:, 0])


def capture(model: keras.Model, images, batch_size: int = 32) -> Attention:
    """Read a model's attention weights without rebuilding, retraining or changing it.

    Args:
        model: a model with encoder blocks, whatever its head.
        images: (B, H, W, C) as the model takes them.
        batch_size: images that go through the model at once.

    Raises:
        ValueError: `model` has no encoder blocks, or the images are not of its input shape.
    """
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    embeddings = [layer for layer in model.layers if isinstance(layer, PatchEmbedding)]
    if not blocks or not embeddings:
        kinds = ", ".join(sorted({type(layer).__name__ for layer in model.layers}))
        raise ValueError(f"model expected encoder blocks to read attention from, received {model.name!r} of {kinds}.")
    images = _checked(model, images)
    pools = [layer for layer in model.layers if isinstance(layer, TokenPooling)]
    probes = [pool for pool in pools if isinstance(pool, AttentionPooling)]
    prefix_tokens = sum(isinstance(layer, ClassToken) for layer in model.layers)
    readers = blocks + probes
    # A block with a convolution inside takes the patches, too.
    read = [keras.tree.flatten(reader.input)[0] for reader in readers]
    inputs = keras.Model(model.inputs[0], [embeddings[-1].output, *read])

    batches = []
    for start in range(0, len(images), batch_size):
        grid, *tokens = inputs(images[start : start + batch_size], training=False)
        attended = (reader.attention_weights(x) for reader, x in zip(readers, tokens, strict=True))
        batches.append([ops.convert_to_numpy(ops.cast(weights, "float32")) for weights in attended])
    *weights, probe = [np.concatenate(parts) for parts in zip(*batches, strict=True)] + [None] * (not probes)
    if probes:
        pooling = "map"
    else:
        gap = isinstance(pools[-1], MeanPooling) if pools else not prefix_tokens
        pooling = "gap" if gap else "token"
    grid = tuple(int(side) for side in grid.shape[1:3])
    return Attention(
        weights=np.stack(weights),
        probe=probe[:, :, 0] if probes else None,
        grid=grid,
        prefix_tokens=prefix_tokens,
        pooling=pooling,
        patch_size=_pixels(embeddings[-1], images.shape[1:3], grid),
    )


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


def rollout(attentions, residual: bool = True) -> np.ndarray:
    """Attention multiplied through the blocks: R_l = A_l R_(l-1), R_0 = I (Abnar & Zuidema, arXiv 2005.00928; D.8).

    Args:
        attentions: (L, B, h, N, N), or a sequence of L arrays (B, h, N, N); heads are averaged.
        residual: mix each A with the identity half and half, for the blocks' skip connections. The ViT paper's
            text leaves this out, the method that it cites has it.

    Returns:
        (B, N, N): row q says how much of each input token is in output token q; rows sum to 1.

    Raises:
        ValueError: `attentions` is not square over the tokens.
    """
    attentions = np.asarray(attentions)
    if attentions.ndim != 5 or attentions.shape[-1] != attentions.shape[-2]:
        raise ValueError(
            f"attentions expected shape (blocks, batch, heads, tokens, tokens), received {attentions.shape}."
        )
    identity = np.eye(attentions.shape[-1], dtype=attentions.dtype)
    return _flow(attentions, np.broadcast_to(identity, (attentions.shape[1], *identity.shape)), residual)


def _flow(attentions, start, residual):
    """start (B, Q, N) multiplied by every block's attention, last block first: (B, Q, N)."""
    for heads in attentions[::-1]:
        step = start @ heads.mean(axis=1)
        start = (start + step) / 2 if residual else step
    return start


def _pixels(embedding, image_size, grid):
    """The patch's own size where it is cut from the image: there the grid may leave a rest at the right and bottom."""
    if all(side // patch == n for side, patch, n in zip(image_size, embedding.patch_size, grid, strict=True)):
        return embedding.patch_size
    return tuple(side / n for side, n in zip(image_size, grid, strict=True))


def _checked(model, images):
    images = np.asarray(images)
    expected = tuple(model.inputs[0].shape)
    sides = zip(expected[1:], images.shape[1:], strict=False)
    if images.ndim != len(expected) or not len(images) or any(side not in (None, given) for side, given in sides):
        shape = ", ".join("any" if side is None else str(side) for side in expected[1:])
        raise ValueError(f"images expected shape (batch, {shape}), received {images.shape}.")
    return images
