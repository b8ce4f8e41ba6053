"""Assemble the results of a model of several labels per image, as in `results.json`.

N images, K labels, R resamples.
"""

from collections.abc import Sequence

import numpy as np

from keras_vit.evaluate.class_metrics import LEVEL, RESAMPLES, SEED, resampled
from keras_vit.evaluate.mistakes import MOST

RATES = ("average_precision", "precision", "recall", "f1")  # of each label


def label_results(
    probabilities, hot, thresholds, labels: Sequence[str], images: Sequence[str], seed: int = SEED,
    resamples: int = RESAMPLES,
) -> dict:  # fmt: skip
    """Return all figures of a model of several labels per image as JSON values.

    Args:
        probabilities: (N, K).
        hot: 1 for each label of an image, else 0, (N, K).
        thresholds: K probabilities from which a label applies.
        labels: K names of the labels.
        images: N names of the images.
        seed: seed of the bootstrap.
        resamples: number of resamples of the bootstrap.

    Returns:
        A dict with `images`, `interval`, `mean_average_precision`, `f1`, `micro_f1`, `exact` (the share of images whose
        labels are all right), `labels` (with the figures of `RATES` for each) and `surest_mistakes`. A figure is
        `{"value": ..., "low": ..., "high": ...}`. The figures of a label that no image has are None, and left out of
        the means.
    """
    probabilities, hot = np.asarray(probabilities), np.asarray(hot)
    called = probabilities >= np.asarray(thresholds, probabilities.dtype)
    drawn = resampled_figures(probabilities, hot, called, resamples, seed)
    found = figures(LabelRanks(probabilities, hot), called, np.ones(len(hot)))
    bounds = np.full((2, len(found)), np.nan)
    known = ~np.isnan(drawn).all(axis=0)
    bounds[:, known] = np.nanpercentile(drawn[:, known], [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    triples = [dict(zip(("value", "low", "high"), map(_plain, triple), strict=True))
               for triple in zip(found, *bounds, strict=True)]  # fmt: skip
    totals, own = triples[:4], np.reshape(triples[4:], (len(RATES), len(labels)))
    rows = [
        {"label": name, "images": int(hot[:, i].sum()), "predicted": int(called[:, i].sum()),
         "threshold": float(thresholds[i]), **dict(zip(RATES, own[:, i], strict=True))}
        for i, name in enumerate(labels)
    ]  # fmt: skip
    return {
        "images": len(hot),
        "interval": {"method": "bootstrap, percentiles", "level": LEVEL, "resamples": resamples, "seed": seed},
        **dict(zip(("mean_average_precision", "f1", "micro_f1", "exact"), totals, strict=True)),
        "labels": rows,
        "surest_mistakes": surest_label_mistakes(probabilities, hot, thresholds, labels, images),
    }


class LabelRanks:
    """The images in the order of each label's probability, for average precisions of weighted images.

    Args:
        probabilities: (N, K).
        hot: 0 or 1, (N, K).
    """

    def __init__(self, probabilities, hot):
        self.order = np.argsort(-probabilities, axis=0, kind="stable")
        ordered = np.take_along_axis(probabilities, self.order, axis=0)
        self.hot, self.known = hot, hot.any(axis=0)
        self.ordered_hot = np.take_along_axis(hot, self.order, axis=0).astype("float64")
        places = np.arange(len(hot))[:, None]
        last = np.vstack([ordered[1:] != ordered[:-1], np.ones((1, ordered.shape[1]), bool)])  # of equal probabilities
        self.ends = np.minimum.accumulate(np.where(last, places, len(hot))[::-1], axis=0)[::-1]

    def average_precisions(self, weights) -> np.ndarray:
        """Return the average precision of each label, (K,), where image i counts `weights[i]` times; NaN if unknown."""
        ordered = weights[self.order]
        own = ordered * self.ordered_hot
        hits, called = (np.take_along_axis(x.cumsum(axis=0), self.ends, axis=0) for x in (own, ordered))
        with np.errstate(divide="ignore", invalid="ignore"):
            precisions = np.where(called > 0, hits / called, 0.0)
            return (own * precisions).sum(axis=0) / own.sum(axis=0)


def figures(ranks: LabelRanks, called, weights) -> np.ndarray:
    """Return the figures of weighted images: four totals, then K values of each of `RATES`, (4 + 4 K,)."""
    precisions, hot = ranks.average_precisions(weights), ranks.hot
    both, chosen, support = (weights @ values for values in (called * hot, called, hot))
    exact = weights @ (called == hot).all(axis=1) / weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.stack([precisions, both / np.maximum(chosen, 1), both / support, 2 * both / (chosen + support)])
        rates[:, support == 0] = np.nan
        micro = 2 * both.sum() / (chosen.sum() + support.sum())
    known = ~np.isnan(rates[0])
    means = (rates[row][known].mean() if known.any() else np.nan for row in (0, 3))
    return np.concatenate([[*means, micro, exact], rates.ravel()])


def resampled_figures(probabilities, hot, called, resamples: int, seed: int) -> np.ndarray:
    """Return `figures` of each resample of the images, (R, 4 + 4 K)."""
    ranks, count = LabelRanks(probabilities, hot), len(hot)
    weights = (np.bincount(chosen, minlength=count).astype("float64") for chosen in resampled(count, resamples, seed))
    return np.stack([figures(ranks, called, own) for own in weights])


def surest_label_mistakes(probabilities, hot, thresholds, labels, images, most: int = MOST) -> list[dict]:
    """Return the wrong labels whose probability is farthest from the threshold, as a share of the way to 0 or 1."""
    probabilities, limits = np.asarray(probabilities, "float64"), np.asarray(thresholds, "float64")
    called = probabilities >= limits
    ways = np.where(called, (probabilities - limits) / np.maximum(1 - limits, 1e-9),
                    (limits - probabilities) / np.maximum(limits, 1e-9))  # fmt: skip
    wrong = np.argwhere(called != (hot > 0))
    order = np.argsort(-ways[tuple(wrong.T)], kind="stable")[:most]
    return [
        {"image": images[i], "label": labels[k], "score": float(probabilities[i, k]), "threshold": float(limits[k]),
         "has_label": bool(hot[i, k])}
        for i, k in wrong[order]
    ]  # fmt: skip


def _plain(value) -> float | None:
    return None if np.isnan(value) else float(value)
