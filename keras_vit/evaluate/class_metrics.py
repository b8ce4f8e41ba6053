"""Compute accuracy, top-k accuracy, and precision, recall and F1 per class, with bootstrap confidence intervals.

N images, K classes, R resamples.
"""

from collections.abc import Iterator

import numpy as np

RESAMPLES, LEVEL, SEED = 1000, 0.95, 0
TOP = 5
RATES = ("precision", "recall", "f1")


def class_metrics(
    scores, labels, top: int = TOP, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = SEED
) -> dict:
    """Return the accuracy and the figures of each class of a classifier.

    A confidence interval is the percentile interval of the bootstrap (Efron 1979): the images are drawn again with
    replacement. It describes the choice of the images, not the training.

    Args:
        scores: (N, K) logits or probabilities.
        labels: (N,) class indices.
        top: k of the top-k accuracy; at most K - 1 is used.
        resamples: number of resamples; 0 leaves the intervals out.
        level: confidence level of the intervals, in (0, 1).
        seed: seed of the resamples.

    Returns:
        A dict with `accuracy`, `top_k`, `macro` and `weighted` (each with `precision`, `recall` and `f1`) and `classes`
        (the same with `images`, `predicted` and `correct` per class). A figure is `{"value": ..., "low": ...,
        "high": ...}`. Averages are over the classes with images. The figures of a class without images are None. The
        precision of a class that has images and is never predicted is 0.

    Raises:
        ValueError: an argument is out of range.
    """
    scores, labels = require_scores(scores, labels)
    if not 0 < level < 1 or resamples < 0:
        raise ValueError(f"level expected a number in (0, 1) and resamples 0 or more, received {level}, {resamples}.")
    classes = scores.shape[1]
    top = max(1, min(top, classes - 1))
    predicted = scores.argmax(axis=1)
    in_top = _in_top(scores, labels, top)
    values = _statistics(labels, predicted, in_top, classes)
    drawn = [_statistics(labels[i], predicted[i], in_top[i], classes) for i in resampled(len(labels), resamples, seed)]
    bounds = _bounds(np.stack(drawn), level) if drawn else np.full((2, len(values)), np.nan)
    figures = [
        {"value": _plain(value), **({"low": _plain(low), "high": _plain(high)} if drawn else {})}
        for value, low, high in zip(values, *bounds, strict=True)
    ]
    hits, support, chosen = _counts(labels, predicted, classes)
    groups = [dict(zip(RATES, figures[start : start + 3], strict=True)) for start in range(2, len(figures), 3)]
    rows = [
        {"class": i, "images": int(support[i]), "predicted": int(chosen[i]), "correct": int(hits[i]), **group}
        for i, group in enumerate(groups[2:])
    ]
    result = {"accuracy": figures[0], "top_k": {"k": top, **figures[1]}, "macro": groups[0], "weighted": groups[1]}
    return result | {"classes": rows}


def require_scores(scores, labels) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (N, K) and labels (N,) as arrays, or raise a ValueError."""
    scores, labels = np.asarray(scores), np.asarray(labels)
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not labels.size:
        raise ValueError(f"scores expected shape (images, classes) and one label per image, received {scores.shape} "
                         f"and {labels.shape}.")  # fmt: skip
    if labels.min() < 0 or labels.max() >= scores.shape[1]:
        raise ValueError(f"labels expected class indices below {scores.shape[1]}, received {labels.min()} to "
                         f"{labels.max()}.")  # fmt: skip
    if not np.isfinite(scores).all():
        raise ValueError("scores expected finite values, received NaN or infinity: the model's weights are damaged.")
    return scores, labels


def resampled(count: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the indices (N,) of each resample of the bootstrap."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, count, count) for _ in range(resamples))


def _in_top(scores, labels, top):
    """Return whether each label is among the `top` best classes (N,); of equal scores the first class is better."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    earlier = np.arange(scores.shape[1]) < labels[:, None]
    return ((scores > own) | ((scores == own) & earlier)).sum(axis=1) < top


def _counts(labels, predicted, classes):
    """Return the numbers of correct images, of images and of predictions per class, each (K,)."""
    hits = np.bincount(labels[labels == predicted], minlength=classes)
    return hits, np.bincount(labels, minlength=classes), np.bincount(predicted, minlength=classes)


def _statistics(labels, predicted, in_top, classes):
    """Return accuracy, top-k accuracy, the rates' macro and weighted averages, and the rates of each class."""
    hits, support, chosen = _counts(labels, predicted, classes)
    present = support > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.stack([hits / np.maximum(chosen, 1), hits / support, 2 * hits / (support + chosen)], axis=1)
    rates[~present] = np.nan
    macro, weighted = rates[present].mean(axis=0), (rates[present].T @ support[present]) / len(labels)
    return np.concatenate([[(labels == predicted).mean(), in_top.mean()], macro, weighted, rates.ravel()])


def _bounds(drawn, level):
    """Return the lower and upper bounds (2, statistics) of the statistics of all resamples (R, statistics)."""
    bounds, known = np.full((2, drawn.shape[1]), np.nan), ~np.isnan(drawn).all(axis=0)
    bounds[:, known] = np.nanpercentile(drawn[:, known], [50 * (1 - level), 50 * (1 + level)], axis=0)
    return bounds


def _plain(value) -> float | None:
    return None if np.isnan(value) else float(value)
