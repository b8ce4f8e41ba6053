"""Metrics of ordered classes, from a confusion matrix.

N images, K classes.
"""

import numpy as np

from keras_vit.evaluate.class_metrics import LEVEL, RESAMPLES, SEED, resampled


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


def rank_results(labels, predicted, classes: int, seed: int = SEED, resamples: int = RESAMPLES) -> dict:
    """Return `rank_metrics` with bootstrap intervals: name -> `{"value": ..., "low": ..., "high": ...}`.

    Args:
        labels: (N,) class indices.
        predicted: (N,) predicted class indices.
        classes: number of classes K.
        seed: seed of the bootstrap.
        resamples: number of resamples of the bootstrap.
    """
    cells = np.asarray(labels) * classes + np.asarray(predicted)
    found = _of_cells(cells, classes)
    drawn = [list(_of_cells(cells[i], classes).values()) for i in resampled(len(cells), resamples, seed)]
    known = ~np.isnan(np.array(drawn)).all(axis=0)
    bounds = np.nanpercentile(np.where(known, drawn, 0.0), [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    rows = zip(found.items(), known, bounds.T.tolist(), strict=True)
    return {name: {"value": value if ok else None, "low": low if ok else None, "high": high if ok else None}
            for (name, value), ok, (low, high) in rows}  # fmt: skip


def _of_cells(cells, classes: int) -> dict:
    return rank_metrics(np.bincount(cells, minlength=classes**2).reshape(classes, classes))
