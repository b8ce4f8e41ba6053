"""The first layer's filters and the position embeddings (figure 7 of the ViT paper).

D width, P patch, C channels, (down, across) patch grid.
"""

import keras
import numpy as np

from keras_vit.analysis.arrays import to_float32
from keras_vit.composed import flattened
from keras_vit.layers import PositionEmbedding

FIRST_LAYERS = ("stem_root", "stem_conv1", "root", "embedding")  # of hybrids, of a BiT, of a plain ViT


def embedding_filters(model: keras.Model, components: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal components of the first layer's filters (figure 7, left).

    The filters are the D columns of the patch embedding's kernel, or the first convolution of a hybrid or a BiT.

    Args:
        model: a model of this package.
        components: maximum number of components.

    Returns:
        The components (components, P, P, C), unit vectors whose largest coefficient is positive. The share of the
        filters' variance along each component, largest first.

    Raises:
        ValueError: the model has no such layer.
    """
    layers = {layer.name: layer for layer in flattened(model).layers}
    first = [layers[name] for name in FIRST_LAYERS if hasattr(layers.get(name), "kernel")]
    if not first:
        raise ValueError(f"model expected one of the first layers {FIRST_LAYERS}, received {model.name!r}.")
    kernel = to_float32(first[0].kernel).astype("float64")  # (P, P, C, D)
    filters = kernel.reshape(-1, kernel.shape[-1]).T  # (D, P * P * C)
    _, singular_values, directions = np.linalg.svd(filters - filters.mean(axis=0), full_matrices=False)
    count = min(components, len(filters) - 1, len(directions))
    directions = directions[:count]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    shares = singular_values**2 / max((singular_values**2).sum(), 1e-30)
    return (directions * np.sign(largest)).reshape(-1, *kernel.shape[:3]), shares[:count]


def position_similarity(model: keras.Model) -> np.ndarray:
    """Return the cosine similarity between the position embeddings of all patches (figure 7, centre).

    Args:
        model: a model with learned or fixed position embeddings.

    Returns:
        (down, across, down, across), in [-1, 1]. Prefix tokens are left out.

    Raises:
        ValueError: the model has no position embeddings.
    """
    layer, table = _position_table(model)
    if table is None:
        raise ValueError(f"model expected position embeddings, received {model.name!r}, which has none.")
    table = table / np.maximum(np.linalg.norm(table, axis=-1, keepdims=True), 1e-12)
    return (table @ table.T).reshape(*layer.grid, *layer.grid)


def has_positions(model: keras.Model) -> bool:
    """Return whether a model adds position embeddings to its tokens."""
    return _position_table(model)[1] is not None


def _position_table(model):
    """Return the position layer and its embeddings of the patches, (down * across, D) float64; None if absent."""
    layer = {layer.name: layer for layer in flattened(model).layers}.get("position_embedding")
    if layer is None:
        return None, None
    if isinstance(layer, PositionEmbedding):
        table = layer.embedding
    else:  # the layer's output for zeros
        width = keras.tree.flatten(layer.input)[0].shape[-1]
        tokens = np.zeros((1, layer.prefix_tokens + layer.grid[0] * layer.grid[1], width), "float32")
        patches = np.zeros((1, *layer.grid, width), "float32")
        table = layer(*[tokens, patches][: len(keras.tree.flatten(layer.input))])
    table = to_float32(table)[0, -layer.grid[0] * layer.grid[1] :].astype("float64")
    return layer, table if table.any() else None
