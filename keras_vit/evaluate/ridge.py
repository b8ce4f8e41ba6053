"""Linear probes: a head fitted in closed form to frozen features (section 4.1, "few-shot"; big_vision's way).

N examples, D features, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

L2 = 2.0**10  # big_vision's
ALL_L2 = tuple(2.0**i for i in range(-10, 20))  # those that its older code chose from
SHOTS = (1, 5, 10, 25)
SEEDS = (0, 1, 2)  # an accuracy is the mean over three draws of the examples
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


def fit_ridge(features: np.ndarray, labels: np.ndarray, classes: int, l2: float = L2) -> Ridge:
    """`fit_ridges` with one strength."""
    return fit_ridges(features, labels, classes, (l2,))[0]


def fit_ridges(features: np.ndarray, labels: np.ndarray, classes: int, l2: Sequence[float]) -> list[Ridge]:
    """Least squares from standardised features to -1 and 1 for every class, held down by l2 |weights|^2.

    One decomposition serves all strengths: that of the smaller one of the two matrices of products.

    Args:
        features: (N, D).
        labels: (N,) classes.
        classes: K.
        l2: strengths; the constant feature is 100, so that the bias is nearly free.

    Returns:
        A head for each strength.

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
    narrow = len(x) >= x.shape[1]
    values, vectors = np.linalg.eigh(x.T @ x if narrow else x @ x.T)
    rotated = vectors.T @ (x.T @ y if narrow else y)
    back = vectors if narrow else x.T @ vectors  # (D + 1, eigenvalues)
    return [Ridge(back @ (rotated / (values + strength)[:, None]), mean, std) for strength in l2]


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


def few_shot_accuracies(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    classes: int,
    draws: Sequence[np.ndarray],
    l2: Sequence[float] = (L2,),
) -> np.ndarray:
    """Accuracy of heads fitted to a few examples of every class.

    Args:
        train: features (N, D) and labels (N,) to draw from.
        test: features and labels to measure on.
        classes: K.
        draws: indices of the examples to fit to, of `few_of_each` for instance.
        l2: strengths.

    Returns:
        Shares in [0, 1], (strengths, draws).
    """
    found = np.zeros((len(l2), len(draws)))
    for j, chosen in enumerate(draws):
        heads = fit_ridges(train[0][chosen], train[1][chosen], classes, l2)
        x = _standardised(np.asarray(test[0], "float64"), heads[0].mean, heads[0].std)  # the same for all strengths
        for i, head in enumerate(heads):
            found[i, j] = np.mean(np.argmax(x @ head.weights, axis=-1) == test[1])
    return found


def _standardised(features, mean, std):
    """With the constant feature behind the others: (N, D) -> (N, D + 1)."""
    x = (features - mean) / std
    return np.concatenate([x, np.full((len(x), 1), _BIAS)], axis=1)
