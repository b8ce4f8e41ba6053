"""How far attention reaches (figure 7 right, appendix D.7).

L encoder blocks, B batch, h heads, N tokens, (down, across) patch grid.
"""

import keras
import numpy as np

from keras_vit.analysis.attention import Attention
from keras_vit.analysis.capturing import as_input, capture


def mean_distance(attention: Attention) -> np.ndarray:
    """Mean distance in pixels between a patch and what it attends to: (L, h).

    The mean over images and queries of sum_j A[q, j] |position(q) - position(j)|, positions being the middles of the
    patches. The paper does not say what becomes of the class token: its row and its column are left out here, and
    the rows made to sum to 1 again.
    """
    between = patch_distances(attention.grid, attention.patch_size)
    own = attention.layout.patches
    found = []
    for block in attention.weights:  # block by block, for all at once are a large array once more
        patches = block[:, :, own, own]
        mass = patches.sum(axis=-1)
        seen = mass > 0  # a query may attend to the class token alone, as far as its type can tell
        reach = np.einsum("bhqk,qk->bhq", patches, between) / np.where(seen, mass, 1)
        found.append(reach.sum(axis=(0, 2)) / np.maximum(seen.sum(axis=(0, 2)), 1))
    return np.stack(found)


def patch_distances(grid: tuple[int, int], patch_size: tuple[float, float]) -> np.ndarray:
    """Euclidean distance in pixels between the middles of any two patches: (down * across, down * across)."""
    rows, columns = (np.arange(n) * size for n, size in zip(grid, patch_size, strict=True))
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.linalg.norm(places[:, None] - places[None], axis=-1).astype("float32")


def even_distance(grid: tuple[int, int], patch_size: tuple[float, float]) -> float:
    """Mean distance in pixels that attention reaches which is spread evenly over the grid."""
    return float(patch_distances(grid, patch_size).mean())


def attention_distance(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Mean attention distance in pixels of every block and head: (B, H, W, C) -> (L, h). See `mean_distance`.

    The paper takes 128 images at 224 pixels. Weights are held for one batch at a time.

    Args and raises: as `capture`.
    """
    images = as_input(model, images)
    parts = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    found = [len(part) * mean_distance(capture(model, part, batch_size)) for part in parts]
    return np.sum(found, axis=0) / len(images)
