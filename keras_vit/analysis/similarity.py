"""How alike two representations are: linear CKA (Kornblith et al., arXiv 1905.00414).

N examples, D features, L layers.
"""

import keras
import numpy as np

from keras_vit.analysis.journey import journey


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """|Y'X|^2 / (|X'X| |Y'Y|) of centred features, Frobenius norms: 1 for representations that differ by a rotation and
    a scale, 0 for ones without linear relation.

    Args:
        x: (N, ...) features of N examples, more axes laid flat.
        y: (N, ...), of the same examples in the same order.

    Raises:
        ValueError: they are not of one number of examples, of which there are at least two, or do not vary.
    """
    first, second = np.asarray(x), np.asarray(y)
    if min(first.ndim, second.ndim) < 2 or len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"x and y expected features (N, ...) of the same N > 1 examples, received {first.shape} and {second.shape}."
        )
    a, b = (_gram(rows) for rows in (first, second))
    size = np.linalg.norm(a) * np.linalg.norm(b)
    if not size > 0:
        raise ValueError("x and y expected features that vary over the examples, received constant ones.")
    return float((a * b).sum() / size)


def layer_similarity(
    model: keras.Model, images, other: keras.Model | None = None, batch_size: int = 32
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Linear CKA of every layer with every layer, of one model or of two, over some images.

    A layer's features of an image are all of its tokens (or its map), laid flat, the class token left out.

    Args:
        model: whose layers make the rows.
        images: (B, H, W, C) as both models take them, two or more; with few images everything looks alike, for B
            examples lie in B - 1 dimensions: take a hundred or more.
        other: whose layers make the columns; the same model where None.
        batch_size: images that go through a model at once.

    Returns:
        (L, M) similarities in [0, 1], the L names of the rows' layers and the M of the columns'.

    Raises:
        ValueError: there are fewer than two images, or they are not of a model's input shape or range.
    """
    if len(images) < 2:
        raise ValueError(f"images expected two or more to compare layers over, received {len(images)}.")
    rows, row_names = _grams(model, images, batch_size)
    columns, column_names = (rows, row_names) if other is None else _grams(other, images, batch_size)
    sizes = [[max(np.linalg.norm(x), 1e-30) for x in grams] for grams in (rows, columns)]
    found = np.array([[(a * b).sum() for b in columns] for a in rows]) / np.outer(*sizes)
    return found, row_names, column_names


def _grams(model, images, batch_size):
    """The centred Gram matrix of every stage, and their names. B x B each, whatever the features' number."""
    way = journey(model, images, batch_size)
    return [_gram(stage) for stage in way.maps], way.stages


def _gram(features):
    """Inner products of centred features, every example with every other: (N, ...) -> (N, N) float64."""
    rows = np.asarray(features, "float64").reshape(len(features), -1)
    rows = rows - rows.mean(axis=0)
    return rows @ rows.T
