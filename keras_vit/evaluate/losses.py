"""Losses of classification, per example.

B batch, K classes.
"""

import difflib
import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_vit.data.balance import class_counts
from keras_vit.data.examples import Examples
from keras_vit.evaluate.regression import target_scale
from keras_vit.train.recipe import Loss

BETAS = {"soft": 0.95, "hard": 0.8}  # of bootstrapping, in the paper
LOG_ZERO = -4.0  # log 0 in the reverse cross entropy, as in the paper
_LEAST = 1e-7  # of 1 - p in the focal loss, whose gradient is not finite at 0 for small exponents


@dataclass(frozen=True)
class ClassTerms:
    """What a loss needs per class or target, float32 (K,).

    Args:
        weights: weights of the classes; None for none.
        offsets: values that are added to the logits; None for none.
        mean, deviation: mean and standard deviation of the targets of a regression; None for classes.
    """

    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    mean: np.ndarray | None = None
    deviation: np.ndarray | None = None


NO_TERMS = ClassTerms()


def class_terms(loss: Loss, examples: Examples) -> ClassTerms:
    """Return the terms of a loss per class or target, from the labels of the training split.

    Raises:
        ValueError: a class has no example or is in every image, the loss names an unknown class, or a target of a
            regression has one value only.
    """
    if loss.is_regression:
        mean, deviation = target_scale(examples)
        return ClassTerms(mean=mean, deviation=deviation)
    weights = offsets = None
    if loss.class_weights == "balanced":
        counts = class_counts(examples, "class_weights 'balanced'")
        total = (examples.whole or examples).count
        weights = (total - counts) / counts if loss.kind == "sigmoid" else counts.sum() / (len(counts) * counts)
        if not weights.all():
            everywhere = examples.labels[int(np.argmin(weights))]
            raise ValueError("class_weights 'balanced' expected training images without each class, found "
                             f"{everywhere!r} in all of them; a weight per class fits.")  # fmt: skip
    elif loss.class_weights:
        unknown = [name for name in loss.class_weights if name not in examples.labels]
        if unknown:
            nearest = difflib.get_close_matches(unknown[0], examples.labels, n=3, cutoff=0)
            raise ValueError(f"class_weights expected names of classes, received {unknown[0]!r}; the nearest are "
                             f"{', '.join(nearest)}.")  # fmt: skip
        weights = np.array([loss.class_weights.get(name, 1.0) for name in examples.labels])
    if loss.logit_adjustment:
        counts = class_counts(examples, "logit_adjustment")
        offsets = loss.logit_adjustment * np.log(counts / counts.sum())
    as_float32 = lambda values: None if values is None else values.astype("float32")  # noqa: E731
    return ClassTerms(as_float32(weights), as_float32(offsets))


def example_losses(loss: Loss, targets, logits, terms: ClassTerms = NO_TERMS):
    """Return the loss of each example in float32: targets (B, K) and logits (B, K) -> (B,).

    The logits of the loss `ordinal` are log probabilities, whose cross entropy is the sum of CORN's losses.
    """
    logits = tf.cast(logits, tf.float32)
    if loss.label_smoothing:
        targets = targets * (1 - loss.label_smoothing) + loss.label_smoothing / tf.cast(targets.shape[-1], tf.float32)
    if not loss.is_plain:
        function = _sigmoid_losses if loss.kind == "sigmoid" else _softmax_losses
        return function(loss, targets, logits, terms)
    if loss.kind == "sigmoid":
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(targets, logits), axis=-1)
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def _softmax_losses(loss: Loss, targets, logits, terms: ClassTerms):
    if terms.offsets is not None:
        logits += terms.offsets
    logs = tf.nn.log_softmax(logits)
    shares = tf.exp(logs)
    if loss.bootstrap:
        hard = tf.one_hot(tf.argmax(logits, axis=-1), logits.shape[-1])
        targets = _bootstrapped(loss, targets, shares, hard)
    weighted = targets if terms.weights is None else targets * terms.weights
    losses = -tf.reduce_sum(weighted * _focused(loss, 1.0 - shares) * logs, axis=-1)
    if loss.symmetric is None:
        return losses
    forward, reverse = loss.symmetric
    log_targets = tf.math.log(tf.maximum(targets, math.exp(LOG_ZERO)))
    return forward * losses - reverse * tf.reduce_sum(shares * log_targets, axis=-1)


def _sigmoid_losses(loss: Loss, targets, logits, terms: ClassTerms):
    shares = tf.sigmoid(logits)
    if loss.bootstrap:
        targets = _bootstrapped(loss, targets, shares, tf.cast(logits > 0, tf.float32))
    present = -targets * _focused(loss, 1.0 - shares) * tf.math.log_sigmoid(logits)
    absent = (targets - 1.0) * _focused(loss, shares) * tf.math.log_sigmoid(-logits)
    if terms.weights is not None:
        present *= terms.weights
    return tf.reduce_sum(present + absent, axis=-1)


def _bootstrapped(loss: Loss, targets, soft, hard):
    """Return the mean of the targets and the model's own prediction. Gradients pass through soft predictions."""
    beta = BETAS[loss.bootstrap] if loss.bootstrap_beta is None else loss.bootstrap_beta
    return beta * targets + (1.0 - beta) * (soft if loss.bootstrap == "soft" else hard)


def _focused(loss: Loss, rests):
    """Return the factor of the focal loss from one minus the probability of the true answer."""
    return tf.maximum(rests, _LEAST) ** loss.focal_gamma if loss.focal_gamma else 1.0
