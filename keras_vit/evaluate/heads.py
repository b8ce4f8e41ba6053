"""Classifiers on frozen features beside the ridge of `probe.py`: logistic regression, and weighted neighbours.

N examples, D features, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

C = tuple(10.0**i for i in range(-4, 4))  # inverse strengths to choose from
NEIGHBOURS, TEMPERATURE = 20, 0.07  # DINO's (arXiv 2104.14294, section 4.1)
_ROWS = 1024  # that similarities are computed for at once


@dataclass(frozen=True)
class Logistic:
    """What `fit_logistic` chose and fitted.

    Args:
        model: scikit-learn's pipeline, fitted to all examples: `predict`, `predict_proba`.
        c: inverse strength that was chosen.
        validation_accuracy: of it, before the last fit, share in [0, 1].
    """

    model: object
    c: float
    validation_accuracy: float


def fit_logistic(
    train: tuple[np.ndarray, np.ndarray], validation: tuple[np.ndarray, np.ndarray], c: Sequence[float] = C
) -> Logistic:
    """Logistic regression on standardised features, its strength chosen on held-out examples, then fitted to all.

    Args:
        train: features (N, D) and labels (N,).
        validation: the same of the examples that the strength is chosen on.
        c: inverse strengths; of several equally good ones the smallest, which holds the weights down most.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        raise ImportError(
            "A linear probe needs scikit-learn, found none: pip install 'keras-vit-zoo[analysis]'."
        ) from None

    def fitted(strength, x, y):
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(x, y)

    scores = {strength: fitted(strength, *train).score(*validation) for strength in sorted(c)}
    best = max(scores, key=scores.get)
    both = (np.concatenate(pair) for pair in zip(train, validation, strict=True))
    return Logistic(fitted(best, *both), best, float(scores[best]))


def neighbour_scores(
    train: tuple[np.ndarray, np.ndarray],
    features: np.ndarray,
    classes: int,
    neighbours: int = NEIGHBOURS,
    temperature: float = TEMPERATURE,
) -> np.ndarray:
    """Votes of the nearest examples by cosine similarity s, each of weight exp(s / temperature), as DINO's.

    Args:
        train: features (N, D) and labels (N,) of the examples that vote.
        features: (M, D) to be classified.
        classes: K.
        neighbours: that vote; all where there are fewer.
        temperature: the smaller, the more the nearest one counts.

    Returns:
        Votes (M, K).

    Raises:
        ValueError: a number is out of range.
    """
    if neighbours < 1 or not temperature > 0:
        raise ValueError(f"neighbours and temperature expected positive numbers, received {neighbours}, {temperature}.")
    known, labels = _unit(train[0]), np.asarray(train[1])
    neighbours = min(neighbours, len(known))
    votes = np.zeros((len(features), classes))
    for begin in range(0, len(features), _ROWS):
        similarity = _unit(features[begin : begin + _ROWS]) @ known.T
        nearest = np.argpartition(-similarity, neighbours - 1, axis=1)[:, :neighbours]
        weights = np.exp(np.take_along_axis(similarity, nearest, axis=1) / temperature)
        rows = np.repeat(np.arange(begin, begin + len(similarity)), neighbours)
        np.add.at(votes, (rows, labels[nearest].ravel()), weights.ravel())
    return votes


def _unit(features):
    """Rows of length 1; a row of zeros stays."""
    features = np.asarray(features, "float64")
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
