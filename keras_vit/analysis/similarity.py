"""Similarity of representations: linear CKA (Kornblith et al., arXiv 1905.00414).

N examples, D features, L and M layers.
"""

import keras
import numpy as np

from keras_vit.analysis.layer_outputs import layer_outputs


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Return |Y'X|^2 / (|X'X| |Y'Y|) of centred features, with Frobenius norms.

    It is 1 for representations that differ by a rotation and a scale, and 0 for ones without a linear relation.

    Args:
        x: (N, ...) features of N examples; further axes are flattened.
        y: (N, ...) features of the same examples in the same order.

    Raises:
        ValueError: the numbers of examples differ or are less than two, or the features are constant.
    """
    x, y = np.asarray(x), np.asarray(y)
    if min(x.ndim, y.ndim) < 2 or len(x) != len(y) or len(x) < 2:
        raise ValueError(
            f"x and y expected features (N, ...) of the same N > 1 examples, received {x.shape} and {y.shape}."
        )
    gram_x, gram_y = _gram_matrix(x), _gram_matrix(y)
    norm = np.linalg.norm(gram_x) * np.linalg.norm(gram_y)
    if not norm > 0:
        raise ValueError("x and y expected features that vary over the examples, received constant ones.")
    return float((gram_x * gram_y).sum() / norm)


def layer_similarity(
    model: keras.Model, images, other: keras.Model | None = None, batch_size: int = 32
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Return the linear CKA between all layers of one model, or between the layers of two models.

    The features of a layer are its patch tokens or its map, flattened per image.

    Args:
        model: the model of the rows.
        images: (B, H, W, C) in the input range of both models, at least two. A hundred or more are needed to tell
            layers apart, because B centred examples span only B - 1 dimensions.
        other: the model of the columns; `model` if None.
        batch_size: images per forward pass.

    Returns:
        Similarities (L, M) in [0, 1], the names of the L layers, and the names of the M layers.

    Raises:
        ValueError: there are fewer than two images, or they do not have a model's input shape or range.
    """
    if len(images) < 2:
        raise ValueError(f"images expected two or more to compare layers, received {len(images)}.")
    grams, names = _gram_matrices(model, images, batch_size)
    other_grams, other_names = (grams, names) if other is None else _gram_matrices(other, images, batch_size)
    norms = [[max(np.linalg.norm(gram), 1e-30) for gram in group] for group in (grams, other_grams)]
    products = np.array([[(a * b).sum() for b in other_grams] for a in grams])
    return products / np.outer(*norms), names, other_names


def _gram_matrices(model, images, batch_size):
    outputs = layer_outputs(model, images, batch_size)
    return [_gram_matrix(features) for features in outputs.maps], outputs.layers


def _gram_matrix(features):
    """Return the inner products of centred features: (N, ...) -> (N, N) float64."""
    features = np.asarray(features, "float64").reshape(len(features), -1)
    features = features - features.mean(axis=0)
    return features @ features.T
