"""Compute the loss, accuracy and calibration error of a model.

B batch, K classes.
"""

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_vit.composed import flattened
from keras_vit.data.broken import naming_broken_files
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.sources import open_data
from keras_vit.evaluate.calibration import BINS
from keras_vit.evaluate.losses import example_losses
from keras_vit.evaluate.multi_label import gather, label_metrics, score_function
from keras_vit.evaluate.ordinal import rank_metrics
from keras_vit.evaluate.regression import metrics_of_sums, sums_function
from keras_vit.models.model_interface import model_interface
from keras_vit.models.vision_model import VisionModel
from keras_vit.preprocessing.inputs import imagenet_classes
from keras_vit.private import call_behind
from keras_vit.train.recipe import Data, Loss


def logits_model(model: keras.Model) -> keras.Model:
    """Return a model that shares `model`'s weights and ends before its softmax or sigmoid."""
    model = flattened(model)
    output = model.outputs[0]
    last = call_behind(output)
    if last.operation.name == "predictions":
        # Not `get_layer("head").output`: it is ambiguous if the layer is called for other image sizes, too.
        output = last.input_tensors[0]
    return VisionModel(model.input, output, name=f"{model.name}_logits")


def evaluator(
    model: keras.Model,
    loss: Loss | None = None,
    metrics: tuple[str, ...] = ("accuracy",),
    among: Sequence[int] | None = None,
    flip: bool = False,
    soft: bool = False,
):
    """Return a compiled function of a batch (images, labels, weights) that returns sums for `evaluate`.

    Labels are classes (B,), or 1 at each correct class (B, K), as in ImageNet-ReaL. Images without a correct class
    are then ignored, and a prediction is correct if it is any of the correct classes.

    Args:
        model: a classifier.
        loss: loss to report, without label smoothing; softmax if None.
        metrics: as in `evaluate`.
        among: classes that may be predicted, as for ImageNet-R and -A with 200 of the 1,000 classes; None for all.
        flip: whether to average the logits of an image and its mirror image.
        soft: whether labels (B, K) are probabilities; the most probable class is then the correct one.
    """
    logits_of = logits_model(model)
    loss = Loss(loss.kind) if loss else Loss()
    classes = logits_of.output_shape[-1]
    others = None if among is None else tf.constant([i not in set(among) for i in range(classes)])

    @tf.function
    def sums(images, labels, weights):
        logits = tf.cast(logits_of(images, training=False), tf.float32)
        if flip:
            mirrored = logits_of(tf.reverse(images, axis=[2]), training=False)
            logits = (logits + tf.cast(mirrored, tf.float32)) / 2
        if others is not None:
            logits = tf.where(others, -1e9, logits)
        correct, targets, weights = _answers(loss, labels, weights, classes, soft)
        losses = example_losses(loss, targets, logits)
        hits = tf.gather(correct, tf.argmax(logits, axis=-1), batch_dims=1)
        totals = [[tf.reduce_sum(values * weights)] for values in (losses, hits, tf.ones_like(weights))]
        if "top5" in metrics:
            best = tf.math.top_k(logits, min(5, classes)).indices
            hits_top5 = tf.reduce_max(tf.gather(correct, best, batch_dims=1), axis=-1)
            totals.append([tf.reduce_sum(hits_top5 * weights)])
        if "calibration" in metrics:
            scores = tf.sigmoid(logits) if loss.kind == "sigmoid" else tf.nn.softmax(logits)
            confidence = tf.reduce_max(scores, axis=-1)
            bins = tf.minimum(tf.cast(confidence * BINS, tf.int32), BINS - 1)
            totals.append(tf.math.unsorted_segment_sum((confidence - hits) * weights, bins, BINS))
        if loss.kind == "ordinal":  # the confusion matrix
            cells = tf.argmax(correct, axis=-1) * classes + tf.argmax(logits, axis=-1)
            totals.append(tf.math.unsorted_segment_sum(weights, cells, classes**2))
        return tf.concat(totals, axis=0)

    return sums


def _answers(loss: Loss, labels, weights, classes: int, soft: bool):
    """Return 1 at the correct classes (B, K), the targets of the loss (B, K), and the weights (B,) of `evaluator`."""
    if soft:
        return tf.one_hot(tf.argmax(labels, axis=-1), classes), labels, weights
    if labels.shape.rank != 2:
        correct = tf.one_hot(labels, classes)
        return correct, correct, weights
    correct = tf.cast(labels, tf.float32)
    weights = weights * tf.cast(tf.reduce_any(correct > 0, axis=-1), tf.float32)
    shares = tf.math.divide_no_nan(correct, tf.reduce_sum(correct, axis=-1, keepdims=True))
    return correct, correct if loss.kind == "sigmoid" else shares, weights


def evaluate(
    model: keras.Model, batches, loss: Loss | None = None, sums=None, metrics: tuple[str, ...] = ("accuracy",)
) -> dict:
    """Evaluate a classifier.

    Args:
        model: a model of this package with its top.
        batches: batches of (images, labels, weights), as from `evaluation_batches`.
        loss: loss to report, without label smoothing; softmax if None.
        sums: `evaluator(model, loss, metrics)`, if it exists already.
        metrics: any of `accuracy`, `top5` and `calibration`, which is the expected calibration error over 15 bins of
            equal width (arXiv 1706.04599).

    Returns:
        `{"loss": mean, "accuracy": in [0, 1], "examples": count}`, and `top5` and `calibration` if requested. All but
        the count are NaN if the loss is not finite. With the loss `ordinal` also those of
        `keras_vit.evaluate.ordinal.rank_metrics`.
    """
    sums = sums or evaluator(model, loss, metrics)
    total = sum(tf.cast(sums(*batch), tf.float64) for batch in batches).numpy()
    if not np.isfinite(total[0]):
        total[[0, 1, *range(3, len(total))]] = np.nan
    loss, hits, count = total[:3]
    results, rest = {"loss": float(loss / count), "accuracy": float(hits / count)}, total[3:]
    if "top5" in metrics:
        results["top5"], rest = float(rest[0] / count), rest[1:]
    if "calibration" in metrics:
        results["calibration"], rest = float(np.abs(rest[:BINS]).sum() / count), rest[BINS:]
    if len(rest):  # the confusion matrix
        results |= rank_metrics(rest.reshape((math.isqrt(len(rest)),) * 2))
    return results | {"examples": round(count)}


def evaluate_model(
    model: keras.Model,
    data: Data,
    data_dir: str | None = None,
    loss: Loss | None = None,
    split: str | None = None,
    flip: bool = False,
    left_out: tuple[str, ...] = (),
) -> dict:
    """Evaluate a trained model on a data set.

    Args:
        model: a model of this package with its top.
        data: source of the examples; `recipe.data` for the data of a recipe.
        data_dir: replaces the directory in `data`.
        loss: loss to report; softmax if None.
        split: replaces the test split in `data`.
        flip: whether to average the logits of an image and its mirror image, in twice the time. Exports do not, nor do
            the metrics of several labels per image.
        left_out: files that training skipped as broken, which may be missing, as from `train.left_out.known_broken`.

    Returns:
        `{"loss": mean, "accuracy": in [0, 1], "examples": count}`; with several labels per image also the metrics of
        `keras_vit.evaluate.multi_label.label_metrics`, at the model's thresholds. A regression has those of
        `keras_vit.evaluate.regression.metrics_of_sums` instead.

    Raises:
        FileNotFoundError: the data does not exist.
        ValueError: the model is not a classifier of these classes or has no image size, or a data file is broken or
            missing.
    """
    examples = open_data(data, split or data.test_split, data_dir, left_out)
    interface = model_interface(model)
    require_same_classes(model, examples.labels)
    batches = evaluation_batches(
        examples,
        batch_size=data.batch_size,
        input_shape=interface.image_shape,
        scale=not interface.takes_pixels,
        spec=interface.preprocessing,
        resize=data.resize,
    )
    with naming_broken_files(examples):
        if interface.targets:
            if flip:
                raise ValueError("flip expected False with a regression, received True.")
            return evaluate_regression(model, batches, loss or Loss("mse"))
        result = evaluate(model, batches, loss, evaluator(model, loss, flip=flip, soft=examples.kind != "classes"))
        if interface.thresholds and examples.multi:
            scores = tf.function(score_function(logits_model(model)))
            result |= label_metrics(*gather(scores, batches), interface.thresholds)
        return result


def evaluate_regression(model: keras.Model, batches, loss: Loss, sums=None) -> dict:
    """Evaluate a regression on batches of (images, values, weights); see `metrics_of_sums`.

    `sums` is `regression_sums(model, loss)`, if it exists already.
    """
    sums = sums or regression_sums(model, loss)
    total = sum(tf.cast(sums(*batch), tf.float64) for batch in batches).numpy()
    head = flattened(model).get_layer("head")
    return metrics_of_sums(total, head.labels, head.deviation)


def regression_sums(model: keras.Model, loss: Loss):
    """Return a compiled function of a batch (images, values, weights) that returns sums for `metrics_of_sums`."""
    head = flattened(model).get_layer("head")
    scale = (tf.constant(values, tf.float32) for values in (head.mean, head.deviation))
    return sums_function(model, loss, *scale)


def has_same_classes(model: keras.Model, labels) -> bool:
    """Return whether data has the classes or targets of a model. Names are compared if the model has names."""
    interface, labels = model_interface(model), tuple(labels)
    if interface.targets:
        return interface.targets == labels
    named = interface.classes is not None and flattened(model).get_layer("head").labels is not None
    numbers = tuple(number for number, _ in imagenet_classes())  # WordNet ids, the labels of ImageNet's data
    return interface.classes == len(labels) and (not named or labels in (interface.labels, numbers))


def require_same_classes(model: keras.Model, labels) -> None:
    """Raise a ValueError if a model does not predict the data's classes or targets."""
    interface = model_interface(model)
    if interface.targets and not has_same_classes(model, labels):
        raise ValueError(f"data expected the model's targets ({few(interface.targets)}), found {few(labels)}.")
    if interface.classes is None and not interface.targets:
        raise ValueError(f"model expected a classifier, received {model.name}, which has no top.")
    if not has_same_classes(model, labels):
        raise ValueError(
            f"data expected the model's {interface.classes} classes ({few(interface.labels)}), found {len(labels)} "
            f"({few(labels)})."
        )


def few(labels) -> str:
    """Return the first of some names as a text."""
    return ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
