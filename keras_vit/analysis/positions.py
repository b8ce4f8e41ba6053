"""What the two ends of the embedding learned: the filters that see the pixels, and the positions (figure 7).

D width, P patch, C channels, (down, across) patch grid.
"""

import keras
import numpy as np
from keras import ops

from keras_vit.composed import flattened
from keras_vit.layers import PositionEmbedding

FIRST_LAYERS = ("stem_root", "root", "embedding")  # of a hybrid, of a BiT, of a plain ViT


def embedding_filters(model: keras.Model, components: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Principal components of the filters that see the pixels (figure 7, left: "the first 28").

    Those are the D columns of the patch embedding's kernel; in a hybrid or a BiT, whose embedding sees no pixels, the
    filters of its first convolution.

    Args:
        model: a model of this package.
        components: how many; there are at most as many as a patch has numbers, and as there are filters.

    Returns:
        The components (components, P, P, C), each of length 1 with its largest number positive, and the share of the
        filters' variance that each explains (components,), largest first.

    Raises:
        ValueError: the model has no such layer.
    """
    layers = {layer.name: layer for layer in flattened(model).layers}
    first = [layers[name] for name in FIRST_LAYERS if hasattr(layers.get(name), "kernel")]
    if not first:
        raise ValueError(f"model expected a layer of {FIRST_LAYERS} that sees the pixels, received {model.name!r}.")
    kernel = ops.convert_to_numpy(ops.cast(first[0].kernel, "float32")).astype("float64")  # (P, P, C, D)
    filters = kernel.reshape(-1, kernel.shape[-1]).T  # (D, P * P * C)
    _, spread, directions = np.linalg.svd(filters - filters.mean(axis=0), full_matrices=False)
    count = min(components, len(filters) - 1, len(directions))
    directions = directions[:count]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    shares = spread**2 / max((spread**2).sum(), 1e-30)
    return (directions * np.sign(largest)).reshape(-1, *kernel.shape[:3]), shares[:count]


def position_similarity(model: keras.Model) -> np.ndarray:
    """Cosine similarity of the position embedding of any patch with that of any other (figure 7, centre).

    Args:
        model: a model with positions, learned or fixed.

    Returns:
        (down, across, down, across), in [-1, 1]; the class token's position is left out.

    Raises:
        ValueError: the model has no positions.
    """
    layer, table = _table(model)
    if table is None:
        raise ValueError(f"model expected position embeddings, received {model.name!r}, which has none.")
    table = table / np.maximum(np.linalg.norm(table, axis=-1, keepdims=True), 1e-12)
    return (table @ table.T).reshape(*layer.grid, *layer.grid)


def has_positions(model: keras.Model) -> bool:
    """Whether something that hangs on its position is added to a token."""
    return _table(model)[1] is not None


def _table(model):
    """The layer, and what it adds to each patch, (down * across, D) float64; None without positions."""
    layer = {layer.name: layer for layer in flattened(model).layers}.get("position_embedding")
    if layer is None:
        return None, None
    if isinstance(layer, PositionEmbedding):
        table = layer.embedding
    else:  # what the layer adds to nothing
        width = keras.tree.flatten(layer.input)[0].shape[-1]
        tokens = np.zeros((1, layer.prefix_tokens + layer.grid[0] * layer.grid[1], width), "float32")
        patches = np.zeros((1, *layer.grid, width), "float32")
        table = layer(*[tokens, patches][: len(keras.tree.flatten(layer.input))])
    table = ops.convert_to_numpy(ops.cast(table, "float32"))[0, layer.prefix_tokens :].astype("float64")
    return layer, table if table.any() else None
