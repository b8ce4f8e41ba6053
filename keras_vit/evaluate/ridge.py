"""Fit linear heads to frozen features in closed form, as big_vision does (section 4.1, "few-shot").

N examples, D features, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

L2 = 2.0**10  # strength in big_vision
ALL_L2 = tuple(2.0**i for i in range(-10, 20))  # choices of its older code
SHOTS = (1, 5, 10, 25)
SEEDS = (0, 1, 2)  # accuracies are means over three samples of the examples
_BIAS = 100.0  # value of the constant feature, so large that its weight is hardly regularised


@dataclass(frozen=True)
class Ridge:
    """A linear head.

    Args:
        weights: weights (D + 1, K), the last row for the constant feature.
        mean: mean (D,) of the training features.
        std: standard deviation (D,) of the training features.
    """

    weights: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def fit_ridge(features: np.ndarray, labels: np.ndarray, classes: int, l2: float = L2) -> Ridge:
    """Fit `fit_ridges` with one strength."""
    return fit_ridges(features, labels, classes, (l2,))[0]


def fit_ridges(features: np.ndarray, labels: np.ndarray, classes: int, l2: Sequence[float]) -> list[Ridge]:
    """Fit ridge regression from standardised features to -1 and 1 per class, with the penalty l2 |weights|^2.

    All strengths share one eigendecomposition, of the smaller one of the two Gram matrices.

    Args:
        features: training features (N, D).
        labels: classes (N,).
        classes: number of classes K.
        l2: regularisation strengths.

    Returns:
        One head per strength.

    Raises:
        ValueError: the numbers of labels and features differ, or a label is not in 0..K - 1.
    """
    features, labels = np.asarray(features, "float64"), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(f"labels expected one per example of features {features.shape}, received {labels.shape}.")
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
    """Return the scores of the classes: features (N, D) -> (N, K)."""
    return _standardised(np.asarray(features, "float64"), head.mean, head.std) @ head.weights


def sample_per_class(labels: np.ndarray, shots: int, seed: int = 0) -> np.ndarray:
    """Return the indices of a random sample of `shots` examples per class, as big_vision draws them.

    Args:
        labels: classes (N,).
        shots: examples per class; a class with fewer examples contributes all of them.
        seed: random seed.
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
    """Return the test accuracy of heads that are fitted to a few examples per class.

    Args:
        train: features (N, D) and labels (N,) to sample from.
        test: features and labels of the test examples.
        classes: number of classes K.
        draws: indices of the training examples of each fit, as from `sample_per_class`.
        l2: regularisation strengths.

    Returns:
        Accuracies in [0, 1], (strengths, draws).
    """
    accuracies = np.zeros((len(l2), len(draws)))
    for j, sample in enumerate(draws):
        heads = fit_ridges(train[0][sample], train[1][sample], classes, l2)
        x = _standardised(np.asarray(test[0], "float64"), heads[0].mean, heads[0].std)  # the same for all strengths
        for i, head in enumerate(heads):
            accuracies[i, j] = np.mean(np.argmax(x @ head.weights, axis=-1) == test[1])
    return accuracies


def _standardised(features, mean, std):
    """Standardise features and append the constant feature: (N, D) -> (N, D + 1)."""
    x = (features - mean) / std
    return np.concatenate([x, np.full((len(x), 1), _BIAS)], axis=1)
