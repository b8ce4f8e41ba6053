"""Linear probes: a head fitted in closed form to frozen features (section 4.1, "few-shot"; big_vision's way).

N examples, D features, K classes.
"""

from dataclasses import dataclass

import numpy as np

_BIAS = 100.0  # of the constant feature: so large that its weight is hardly held down


@dataclass(frozen=True)
class Ridge:
    """A linear head.

    Args:
        weights: (D + 1, K), the last row for the constant feature.
        mean: (D,), of the features it was fitted to.
        std: (D,), of the same.
    """

    weights: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def fit_ridge(features: np.ndarray, labels: np.ndarray, classes: int, l2: float = 2.0**10) -> Ridge:
    """Least squares from standardised features to -1 and 1 for every class, held down by `l2` |weights|^2.

    Args:
        features: (N, D).
        labels: (N,) classes.
        classes: K.
        l2: strength; the constant feature is 100, so that the bias is nearly free.

    Raises:
        ValueError: there are not as many labels as features, or a label is no class.
    """
    features, labels = np.asarray(features, "float64"), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(f"labels expected one for each row of features {features.shape}, received {labels.shape}.")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(f"labels expected classes of 0 to {classes - 1}, received {labels.min()} to {labels.max()}.")
    mean, std = features.mean(axis=0), features.std(axis=0) + 1e-5
    x = _standardised(features, mean, std)
    y = 2.0 * np.eye(classes)[labels] - 1.0  # (N, K)
    if len(x) >= x.shape[1]:
        weights = np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ y)
    else:  # the same, with the smaller matrix
        weights = x.T @ np.linalg.solve(x @ x.T + l2 * np.eye(len(x)), y)
    return Ridge(weights, mean, std)


def ridge_scores(head: Ridge, features: np.ndarray) -> np.ndarray:
    """Scores of the classes: features (N, D) -> (N, K)."""
    return _standardised(np.asarray(features, "float64"), head.mean, head.std) @ head.weights


def few_of_each(labels: np.ndarray, shots: int, seed: int = 0) -> np.ndarray:
    """Indices of so many examples of every class, all of a class that has fewer, drawn as big_vision draws them.

    Args:
        labels: (N,) classes.
        shots: examples a class.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    return np.concatenate([rng.permutation(np.flatnonzero(labels == label))[:shots] for label in np.unique(labels)])


def _standardised(features, mean, std):
    """With the constant feature behind the others: (N, D) -> (N, D + 1)."""
    x = (features - mean) / std
    return np.concatenate([x, np.full((len(x), 1), _BIAS)], axis=1)
