"""Average precision, thresholds and F1 of models that give an image several labels.

N images, K labels.
"""

import keras
import numpy as np
import tensorflow as tf

DEFAULT = 0.5  # threshold of a label without an image to choose one by


def score_function(logits: keras.Model):
    """Return a function of a batch (images, labels, weights): probabilities (B, K), labels and weights."""

    def scores(images, labels, weights):
        return tf.sigmoid(tf.cast(logits(images, training=False), tf.float32)), labels, weights

    return scores


def gather(scores, batches) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (N, K), which are 0 or 1, and probabilities (N, K) of all images.

    Args:
        scores: a function of a batch as from `score_function`.
        batches: batches of (images, labels, weights); rows of weight 0 are left out.
    """
    values, labels = [], []
    for batch in batches:
        own, hot, weights = (np.asarray(x) for x in scores(*batch))
        values.append(own[weights > 0])
        labels.append(hot[weights > 0])
    return np.concatenate(labels), np.concatenate(values)


def average_precision(hot: np.ndarray, scores: np.ndarray) -> float:
    """Return the average precision of one label, which is the sum of precision times the increase of recall.

    Args:
        hot: 1 for each image with the label, (N,); at least one.
        scores: probabilities (N,). Equal ones are ranked together.
    """
    _, hits, called = _ranked(hot, scores)
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / called))


def f1_thresholds(hot: np.ndarray, scores: np.ndarray) -> tuple[float, ...]:
    """Return, for each label, the threshold with the highest F1: 0/1 (N, K) and probabilities (N, K) -> K values.

    A label applies from its threshold on. The threshold is halfway to the next lower probability, and 0.5 for a label
    that no image has. Of equal F1, the highest threshold is taken.
    """
    return tuple(_best_threshold(own, values) for own, values in zip(hot.T, scores.T, strict=True))


def _best_threshold(hot, scores) -> float:
    if not hot.any():
        return DEFAULT
    values, hits, called = _ranked(hot, scores)
    best = int(np.argmax(2 * hits / (called + hits[-1])))
    below = values[best + 1] if best + 1 < len(values) else 0.0
    middle = np.float32((float(values[best]) + float(below)) / 2)
    return float(middle if middle > below else values[best])


def _ranked(hot, scores):
    """Return the distinct scores from high to low; from each on, the number of images with the label, and of all."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # of equal scores
    return ordered[last], np.cumsum(hot[order].astype("float64"))[last], last + 1.0


def label_metrics(hot: np.ndarray, scores: np.ndarray, thresholds) -> dict:
    """Return the metrics of several labels per image. Labels that no image has are left out of the means over labels.

    Returns:
        `mean_average_precision`; `f1`, the mean over labels of F1 at the thresholds; and `micro_f1` of all labels
        together. All are in [0, 1].
    """
    known = hot.any(axis=0)
    if not known.any():
        return dict.fromkeys(("mean_average_precision", "f1", "micro_f1"), float("nan"))
    called = scores >= np.asarray(thresholds, scores.dtype)
    both, either = (called * hot).sum(axis=0), called.sum(axis=0) + hot.sum(axis=0)
    precisions = [average_precision(hot[:, i], scores[:, i]) for i in np.flatnonzero(known)]
    return {
        "mean_average_precision": float(np.mean(precisions)),
        "f1": float(np.mean(2 * both[known] / either[known])),
        "micro_f1": float(2 * both.sum() / either.sum()),
    }
