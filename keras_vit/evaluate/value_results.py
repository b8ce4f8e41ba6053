"""Assemble the results of a regression on images with known values, as in `results.json`.

N images, T targets.
"""

from collections.abc import Sequence

import numpy as np

from keras_vit.evaluate.class_metrics import LEVEL, RESAMPLES, SEED, resampled

MOST = 50  # listed errors
FIGURES = ("mae", "rmse", "r2")


def value_results(
    predicted, values, targets: Sequence[str], images: Sequence[str], seed: int = SEED, resamples: int = RESAMPLES
) -> dict:
    """Return all figures of a regression as JSON values.

    Args:
        predicted: (N, T) predicted values.
        values: (N, T) true values.
        targets: T names of the targets.
        images: N names of the images.
        seed: seed of the bootstrap.
        resamples: number of resamples of the bootstrap.

    Returns:
        A dict with `images`, `interval`, `targets` and `largest_errors`. A target has its `target` name and `mae`,
        `rmse` and `r2`, each `{"value": ..., "low": ..., "high": ...}`.
    """
    predicted, values = np.asarray(predicted, "float64"), np.asarray(values, "float64")
    found = _figures(predicted, values)  # (3, T)
    drawn = np.stack([_figures(predicted[i], values[i]) for i in resampled(len(values), resamples, seed)])
    low, high = np.nanpercentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    rows = []
    for j, name in enumerate(targets):
        triples = zip(found[:, j], low[:, j], high[:, j], strict=True)
        figures = [dict(zip(("value", "low", "high"), map(_plain, triple), strict=True)) for triple in triples]
        rows.append({"target": name, **dict(zip(FIGURES, figures, strict=True))})
    spread = np.maximum(values.std(axis=0), 1e-12)
    worst = np.argsort(-(np.abs(predicted - values) / spread).max(axis=1), kind="stable")[:MOST]
    return {
        "images": len(values),
        "interval": {"method": "bootstrap, percentiles", "level": LEVEL, "resamples": resamples, "seed": seed},
        "targets": rows,
        "largest_errors": [
            {"image": images[i], "true": values[i].tolist(), "predicted": predicted[i].tolist()} for i in worst
        ],
    }


def _figures(predicted, values) -> np.ndarray:
    """Return the mean absolute error, the root mean squared error and R2 of each target, (3, T)."""
    errors, spread = predicted - values, values.var(axis=0)
    squared = np.mean(errors**2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(spread > 0, 1 - squared / spread, np.nan)
    return np.stack([np.abs(errors).mean(axis=0), np.sqrt(squared), r2])


def _plain(value) -> float | None:
    return None if np.isnan(value) else float(value)
