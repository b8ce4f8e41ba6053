"""Compare two regressions, or two models of several labels per image, on the same images.

N images, T targets, K labels, R resamples.
"""

from collections.abc import Sequence

import numpy as np

from keras_vit.evaluate.agreement import mcnemar
from keras_vit.evaluate.class_metrics import LEVEL, RESAMPLES, SEED, resampled
from keras_vit.evaluate.label_results import LabelRanks

FLIPS = 9999  # random choices of signs of the paired test
EXACT = 12  # images up to which the test tries all signs
_CHUNK = 10_000_000  # signs in memory at once


def value_agreement(
    first, second, targets: Sequence[str], values=None, seed: int = SEED, resamples: int = RESAMPLES
) -> dict:  # fmt: skip
    """Return how far two regressions differ, and whether one has smaller errors.

    Args:
        first: (N, T) predicted values.
        second: (N, T) predicted values of the other regression.
        targets: T names of the targets.
        values: (N, T) true values; None if unknown.
        seed: seed of the bootstrap and of the test.
        resamples: number of resamples of the bootstrap.

    Returns:
        A dict with `images` and `targets`. A target has its `target` name and the mean absolute `difference` of both
        predictions. With values, `interval` describes the bootstrap, and a target also has the `mae` of both; the
        `change` of the mean absolute error, `{"value": ..., "low": ..., "high": ...}`, negative if the second is
        better; and `p` of `paired_test`.
    """
    first, second = np.asarray(first, "float64"), np.asarray(second, "float64")
    if first.shape != second.shape or first.shape[1:] != (len(targets),) or not len(first):
        raise ValueError(f"second expected values (images, {len(targets)}) as first, received {second.shape} and "
                         f"{first.shape}.")  # fmt: skip
    rows = [{"target": name, "difference": float(np.abs(second - first)[:, j].mean())}
            for j, name in enumerate(targets)]  # fmt: skip
    result = {"images": len(first), "targets": rows}
    if values is None:
        return result
    errors = [np.abs(found - np.asarray(values, "float64")) for found in (first, second)]
    changes = errors[1] - errors[0]
    drawn = np.stack([changes[i].mean(axis=0) for i in resampled(len(changes), resamples, seed)])
    for j, row in enumerate(rows):
        row["mae"] = [float(own[:, j].mean()) for own in errors]
        row["change"] = _figure(changes[:, j].mean(), drawn[:, j])
        row["p"] = paired_test(changes[:, j], seed)
    return result | {"interval": _described(seed, resamples)}


def paired_test(differences, seed: int = SEED) -> float:
    """Return the two-sided p of the hypothesis that paired differences are symmetric around zero.

    It is Fisher's randomisation test: the share of choices of the signs whose mean is at least as far from zero. Up to
    12 images all choices are tried, otherwise 9,999 random ones.

    Args:
        differences: (N,).
        seed: seed of the random choices.
    """
    differences = np.asarray(differences, "float64")
    count, rng = len(differences), np.random.default_rng(seed)
    least = abs(differences.sum()) * (1 - 1e-12)
    if count <= EXACT:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float((np.abs(signs @ differences) >= least).mean())
    farther, chunk = 0, max(_CHUNK // count, 1)
    for start in range(0, FLIPS, chunk):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (min(chunk, FLIPS - start), count), "int8")
        farther += int((np.abs(signs @ differences) >= least).sum())
    return (1 + farther) / (1 + FLIPS)


def label_agreement(
    scores, called, labels: Sequence[str], hot=None, seed: int = SEED, resamples: int = RESAMPLES
) -> dict:  # fmt: skip
    """Return how often two models of several labels agree, and which labels one finds better.

    Args:
        scores: probabilities (N, K) of both models.
        called: whether each label applies, (N, K), of both models.
        labels: K names of the labels.
        hot: 1 for each label of an image, else 0, (N, K); None if unknown.
        seed: seed of the bootstrap.
        resamples: number of resamples of the bootstrap.

    Returns:
        A dict with `images`; `agreement`, the share of images with the same labels, and `changed`, the number of the
        others; and `labels`. A label has its `label` name and the number of images whose answer `changed`. With `hot`,
        `interval` describes the bootstrap; the dict and each label also have the average precisions of both and their
        `change`, `{"value": ..., "low": ..., "high": ...}`; and a label has `images` and `mcnemar` of its answers.
    """
    other = called[0] != called[1]
    rows = [{"label": name, "changed": int(other[:, k].sum())} for k, name in enumerate(labels)]
    changed = int(other.any(axis=1).sum())
    result = {"images": len(other), "agreement": 1 - changed / len(other), "changed": changed, "labels": rows}
    if hot is None:
        return result
    hot = np.asarray(hot)
    ranks = [LabelRanks(own, hot) for own in scores]
    count, known = len(hot), hot.any(axis=0)
    precisions = [own.average_precisions(np.ones(count)) for own in ranks]
    weights = (np.bincount(chosen, minlength=count).astype("float64") for chosen in resampled(count, resamples, seed))
    drawn = np.stack([np.subtract(*(own.average_precisions(one) for own in ranks[::-1])) for one in weights])
    right = [answers == (hot > 0) for answers in called]
    for k, row in enumerate(rows):
        row["images"] = int(hot[:, k].sum())
        row["average_precision"] = [float(own[k]) for own in precisions] if known[k] else None
        row["change"] = _figure(precisions[1][k] - precisions[0][k], drawn[:, k]) if known[k] else None
        row["mcnemar"] = mcnemar(*(int((right[i][:, k] & ~right[1 - i][:, k]).sum()) for i in (0, 1)))
    if known.any():
        means = [float(own[known].mean()) for own in precisions]
        lost = np.isnan(drawn[:, known]).all(axis=1)  # resamples without any label
        totals = np.nanmean(drawn[~lost][:, known], axis=1)
        result |= {"mean_average_precision": means, "change": _figure(means[1] - means[0], totals)}
    return result | {"interval": _described(seed, resamples)}


def _figure(value, drawn) -> dict:
    low, high = np.nanpercentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return {"value": float(value), "low": float(low), "high": float(high)}


def _described(seed: int, resamples: int) -> dict:
    return {"method": "bootstrap, percentiles", "level": LEVEL, "resamples": resamples, "seed": seed}
