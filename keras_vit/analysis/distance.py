"""Mean attention distance (figure 7 right and appendix D.7 of the ViT paper).

L encoder blocks, B batch, h heads, N tokens, (down, across) patch grid.
"""

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input, split_batches
from keras_vit.analysis.attention import Attention
from keras_vit.analysis.capturing import capture


def mean_distance(attention: Attention) -> np.ndarray:
    """Return the mean distance in pixels between a query patch and the patches that it attends to: (L, h).

    The mean over images and queries q of sum_j A[q, j] |position(q) - position(j)|, with positions at the centres of
    the patches. Prefix tokens are left out, and the rows are normalised again; the paper does not state what it does.
    """
    attention.require_shares("mean_distance")
    between_patches = patch_distances(attention.grid, attention.patch_size)
    patches = attention.layout.patches
    distances = []
    for block in attention.weights:  # one block at a time, to save memory
        weights = block[:, :, patches, patches]
        mass = weights.sum(axis=-1)
        attends = mass > 0  # in half precision, a query can attend to the class token only
        distance = np.einsum("bhqk,qk->bhq", weights, between_patches) / np.where(attends, mass, 1)
        distances.append(distance.sum(axis=(0, 2)) / np.maximum(attends.sum(axis=(0, 2)), 1))
    return np.stack(distances)


def patch_distances(grid: tuple[int, int], patch_size: tuple[float, float]) -> np.ndarray:
    """Return the Euclidean distances in pixels between the centres of patches: (down * across, down * across)."""
    rows, columns = (np.arange(n) * size for n, size in zip(grid, patch_size, strict=True))
    positions = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.linalg.norm(positions[:, None] - positions[None], axis=-1).astype("float32")


def uniform_distance(grid: tuple[int, int], patch_size: tuple[float, float]) -> float:
    """Return the mean attention distance in pixels of uniform attention."""
    return float(patch_distances(grid, patch_size).mean())


def attention_distance(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Return the mean attention distance in pixels per block and head: (B, H, W, C) -> (L, h). See `mean_distance`.

    The paper uses 128 images of 224 pixels. The attention weights of one batch are in memory at a time.

    Args and raises: as `capture`.
    """
    images = as_model_input(model, images)
    sums = [
        len(batch) * mean_distance(capture(model, batch, batch_size)) for batch in split_batches(images, batch_size)
    ]
    return np.sum(sums, axis=0) / len(images)
