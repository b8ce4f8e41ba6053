"""Classify frozen features by logistic regression or by weighted nearest neighbours.

N examples, D features, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

C = tuple(10.0**i for i in range(-4, 4))  # inverse regularisation strengths to choose from
NEIGHBOURS, TEMPERATURE = 20, 0.07  # DINO's (arXiv 2104.14294, section 4.1)
_CHUNK = 1024  # examples whose similarities are computed at once


@dataclass(frozen=True)
class Logistic:
    """A fitted logistic regression.

    Args:
        model: scikit-learn's pipeline, fitted to all examples.
        c: chosen inverse regularisation strength.
        validation_accuracy: accuracy with this strength before the last fit, in [0, 1].
    """

    model: object
    c: float
    validation_accuracy: float


def fit_logistic(
    train: tuple[np.ndarray, np.ndarray], validation: tuple[np.ndarray, np.ndarray], c: Sequence[float] = C
) -> Logistic:
    """Fit logistic regression to standardised features. Choose its strength by validation accuracy, then fit to all.

    Args:
        train: features (N, D) and labels (N,).
        validation: features and labels of the validation examples.
        c: inverse regularisation strengths to choose from; the smallest of equally good ones is chosen.

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
    """Return the votes of the nearest examples by cosine similarity s, weighted by exp(s / temperature), as in DINO.

    Args:
        train: features (N, D) and labels (N,) of the examples that vote.
        features: features (M, D) to classify.
        classes: number of classes K.
        neighbours: number of examples that vote; all if there are fewer.
        temperature: temperature of the weights.

    Returns:
        Votes (M, K).

    Raises:
        ValueError: `neighbours` or `temperature` is not positive.
    """
    if neighbours < 1 or not temperature > 0:
        raise ValueError(f"neighbours and temperature expected positive numbers, received {neighbours}, {temperature}.")
    known, labels = _unit(train[0]), np.asarray(train[1])
    neighbours = min(neighbours, len(known))
    votes = np.zeros((len(features), classes))
    for start in range(0, len(features), _CHUNK):
        similarity = _unit(features[start : start + _CHUNK]) @ known.T
        nearest = np.argpartition(-similarity, neighbours - 1, axis=1)[:, :neighbours]
        weights = np.exp(np.take_along_axis(similarity, nearest, axis=1) / temperature)
        indices = np.repeat(np.arange(start, start + len(similarity)), neighbours)
        np.add.at(votes, (indices, labels[nearest].ravel()), weights.ravel())
    return votes


def _unit(features):
    """Scale each feature vector to length 1; zeros stay zeros."""
    features = np.asarray(features, "float64")
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
