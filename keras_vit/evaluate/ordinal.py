"""Metrics of ordered classes, from a confusion matrix.

K classes.
"""

import numpy as np


def rank_metrics(confusion: np.ndarray) -> dict:
    """Return how far predictions are from ordered classes.

    Args:
        confusion: (K, K) numbers of images: true classes down, predicted classes across.

    Returns:
        `rank_error`, the mean absolute difference of the ranks; and `kappa`, Cohen's kappa with quadratic weights,
        which is 1 for perfect predictions and 0 by chance. `kappa` is NaN if all images and predictions have one class.
    """
    confusion = np.asarray(confusion, "float64")
    ranks, count = np.arange(len(confusion)), confusion.sum()
    apart = np.abs(ranks[:, None] - ranks)
    by_chance = np.outer(confusion.sum(axis=1), confusion.sum(axis=0)) / count
    expected = (apart**2 * by_chance).sum()
    kappa = 1 - (apart**2 * confusion).sum() / expected if expected > 0 else np.nan
    return {"rank_error": float((apart * confusion).sum() / count), "kappa": float(kappa)}
