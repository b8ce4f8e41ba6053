"""Find what a classifier gets wrong: accuracy by coverage, the surest mistakes, class pairs, and likely wrong labels.

N images, K classes.
"""

import numpy as np

from keras_vit.evaluate.class_metrics import require_scores

COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
ACCURACIES = (0.9, 0.95, 0.99, 0.999)
MOST = 50  # listed mistakes, pairs and labels


def coverage_curve(probabilities, labels) -> np.ndarray:
    """Return (threshold, coverage, accuracy) for each confidence as a threshold, highest first.

    A classifier that may reject answers only the images whose highest probability is at least the threshold. The
    coverage is the fraction of answered images, and the accuracy is that of the answered images (El-Yaniv & Wiener
    2010).
    """
    probabilities, labels = require_scores(probabilities, labels)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    order = np.argsort(-confidence, kind="stable")
    last = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True))  # equal confidences are answered together
    answered = last + 1
    return np.stack([confidence[order][last], answered / len(labels), np.cumsum(right[order])[last] / answered], axis=1)


def rejection(probabilities, labels) -> dict:
    """Return the accuracy at some coverages, and the highest coverage with some accuracies.

    Returns:
        A dict with `by_coverage` and `by_accuracy`, lists of dicts with `threshold`, `coverage` and `accuracy`. In
        `by_coverage`, the coverage is the smallest that is at least `requested`. In `by_accuracy`, an accuracy that no
        threshold reaches has None.
    """
    curve = coverage_curve(probabilities, labels)
    names = ("threshold", "coverage", "accuracy")
    by_coverage, by_accuracy = [], []
    for requested in COVERAGES:
        row = curve[np.argmax(curve[:, 1] >= requested - 1e-12)]
        by_coverage.append({"requested": requested, **dict(zip(names, map(float, row), strict=True))})
    for requested in ACCURACIES:
        reached = curve[curve[:, 2] >= requested]
        row = list(map(float, reached[-1])) if len(reached) else [None] * 3
        by_accuracy.append({"requested": requested, **dict(zip(names, row, strict=True))})
    return {"by_coverage": by_coverage, "by_accuracy": by_accuracy}


def surest_mistakes(probabilities, labels, most: int = MOST) -> np.ndarray:
    """Return the indices of the wrong predictions, most confident first."""
    probabilities, labels = require_scores(probabilities, labels)
    wrong = np.flatnonzero(probabilities.argmax(axis=1) != labels)
    return wrong[np.argsort(-probabilities.max(axis=1)[wrong], kind="stable")][:most]


def hardest_pairs(confusion, most: int = MOST) -> list[tuple[int, int, int, int]]:
    """Return the pairs of classes that are confused most often, as (first, second, first as second, second as first).

    Args:
        confusion: (K, K) numbers of images: true classes down, predicted classes across.
        most: maximum number of pairs.
    """
    confusion = np.asarray(confusion)
    first, second = np.nonzero(np.triu(confusion + confusion.T, 1))
    mistakes = confusion[first, second] + confusion[second, first]
    order = np.argsort(-mistakes, kind="stable")[:most]
    return [(int(i), int(j), int(confusion[i, j]), int(confusion[j, i]))
            for i, j in zip(first[order], second[order], strict=True)]  # fmt: skip


def likely_wrong_labels(probabilities, labels) -> tuple[np.ndarray, np.ndarray]:
    """Return images whose label is likely wrong, and the class that each more likely has.

    This is confident learning (Northcutt et al. 2021, arXiv 1911.00068, equation 2). The threshold of a class is its
    mean probability over the images with its label. An image is in the class with the highest probability among the
    classes whose threshold it reaches. Images in another class than their label are returned, unless the model
    predicts the label.

    Args:
        probabilities: (N, K) of images that the model was not trained on.
        labels: (N,) class indices.

    Returns:
        Indices (M,) and classes (M,), the lowest probability of the label first.
    """
    probabilities, labels = require_scores(probabilities, labels)
    support = np.bincount(labels, minlength=probabilities.shape[1])
    own = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    thresholds = np.bincount(labels, weights=own, minlength=len(support)) / np.maximum(support, 1)
    thresholds[support == 0] = np.inf  # a class without images has no threshold
    reached = np.where(probabilities >= thresholds - 1e-6, probabilities, -1.0)
    likely = reached.argmax(axis=1)
    suspect = (reached.max(axis=1) >= 0) & (likely != labels) & (probabilities.argmax(axis=1) != labels)
    indices = np.flatnonzero(suspect)
    indices = indices[np.argsort(own[indices], kind="stable")]
    return indices, likely[indices]
