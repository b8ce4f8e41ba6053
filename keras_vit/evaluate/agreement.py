"""Compare the answers of two classifiers on the same images. N images."""

import math

import numpy as np

EXACT = 25  # images with one right answer, below which McNemar's test is exact


def agreement(first, second, labels=None) -> dict:
    """Return how often two classifiers agree, and whether one is better.

    Args:
        first: (N,) predicted classes.
        second: (N,) predicted classes of the other classifier.
        labels: (N,) true classes; None if unknown.

    Returns:
        A dict with `images`, `agreement` in [0, 1] and `changed`, the number of different answers. With labels also
        `accuracy`, of both, and `mcnemar`.

    Raises:
        ValueError: the lengths differ, or there are no images.
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise ValueError(f"second expected one class per image as first, received {second.shape} and {first.shape}.")
    same = first == second
    result = {"images": len(first), "agreement": float(same.mean()), "changed": int((~same).sum())}
    if labels is None:
        return result
    labels = np.asarray(labels)
    if labels.shape != first.shape:
        raise ValueError(f"labels expected one class per image, received {labels.shape} for {len(first)} images.")
    right = first == labels, second == labels
    only = [int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())]
    return result | {"accuracy": [float(values.mean()) for values in right], "mcnemar": mcnemar(*only)}


def mcnemar(first_only: int, second_only: int) -> dict:
    """Return McNemar's test of whether two classifiers have the same accuracy (McNemar 1947).

    The test is exact, by the binomial distribution, for fewer than 25 images that exactly one classifier answers
    correctly. Otherwise it is the chi-squared test with Edwards' continuity correction.

    Args:
        first_only: number of images that only the first classifier answers correctly.
        second_only: number of images that only the second classifier answers correctly.

    Returns:
        A dict with `first_only`, `second_only`, `method` (`exact` or `chi-squared`) and the two-sided `p`.
    """
    count, fewer = first_only + second_only, min(first_only, second_only)
    if count < EXACT:
        method, tail = "exact", sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count
        p = min(1.0, 2 * tail)
    else:
        statistic = max(abs(first_only - second_only) - 1, 0) ** 2 / count
        method, p = "chi-squared", math.erfc(math.sqrt(statistic / 2))  # one degree of freedom
    return {"first_only": first_only, "second_only": second_only, "method": method, "p": p}
