"""Measure the calibration of a classifier, and fit a temperature (Guo et al. 2017, arXiv 1706.04599).

N images, K classes.
"""

import numpy as np

from keras_vit.evaluate.class_metrics import require_scores

BINS = 15  # of confidence, for the calibration error
LOWEST, HIGHEST = 0.01, 100.0  # temperatures
STEPS = 60  # of the bisection, which leaves less than the rounding of float64


def softmax(logits, temperature: float = 1.0) -> np.ndarray:
    """Return the probabilities (N, K) of logits (N, K) at a temperature, in float64."""
    powers = np.asarray(logits, "float64") / temperature
    powers = np.exp(powers - powers.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def calibration(probabilities, labels, bins: int = BINS) -> dict:
    """Return the calibration of a classifier.

    Args:
        probabilities: (N, K).
        labels: (N,) class indices.
        bins: number of bins of equal width for the confidence, the highest probability.

    Returns:
        A dict with `ece`, the expected calibration error; `confidence`, the mean confidence; `log_loss`, the mean
        negative log-likelihood; and `bins`, the reliability curve: `low`, `high`, `images`, and the mean `confidence`
        and the `accuracy` of the images, None in an empty bin.
    """
    probabilities, labels = require_scores(probabilities, labels)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(index, minlength=bins)
    sums = [np.bincount(index, weights=values, minlength=bins) for values in (confidence, right)]
    ece = np.abs(sums[0] - sums[1]).sum() / len(labels)
    own = np.take_along_axis(probabilities, labels[:, None], axis=1)
    rows = [
        {"low": i / bins, "high": (i + 1) / bins, "images": int(count[i]),
         "confidence": float(sums[0][i] / count[i]) if count[i] else None,
         "accuracy": float(sums[1][i] / count[i]) if count[i] else None}
        for i in range(bins)
    ]  # fmt: skip
    log_loss = -np.log(np.maximum(own, np.finfo("float32").tiny)).mean()
    return {"ece": float(ece), "confidence": float(confidence.mean()), "log_loss": float(log_loss), "bins": rows}


def fit_temperature(logits, labels) -> float:
    """Return the temperature with the lowest log loss on validation images.

    The log loss is convex in 1 / temperature, so its minimum is where the derivative changes its sign. Dividing the
    logits by a temperature changes no predicted class.

    Args:
        logits: (N, K) of images that the model was not trained on.
        labels: (N,) class indices.

    Raises:
        ValueError: the log loss has no minimum between 0.01 and 100, as if every prediction is correct.
    """
    logits, labels = require_scores(logits, labels)
    logits = logits.astype("float64")
    logits -= logits.max(axis=1, keepdims=True)
    own = np.take_along_axis(logits, labels[:, None], axis=1).mean()

    def derivative(temperature):
        return (softmax(logits, temperature) * logits).sum(axis=1).mean() - own

    if not derivative(HIGHEST) < 0 < derivative(LOWEST):
        found = "only correct predictions" if own == 0 else "predictions that no temperature improves"
        raise ValueError(
            f"validation expected predictions of which some are wrong and most are right, received {found} on "
            f"{len(labels):,} images: use more or other validation images."
        )
    low, high = np.log(LOWEST), np.log(HIGHEST)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(np.exp(middle)) > 0 else (low, middle)
    return float(np.exp((low + high) / 2))
