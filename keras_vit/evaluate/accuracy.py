"""Loss and accuracy of a model.

B batch, K classes.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_vit.composed import flattened
from keras_vit.data.broken import naming_broken_files
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.sources import open_data
from keras_vit.models.model_interface import model_interface
from keras_vit.models.vision_model import VisionModel
from keras_vit.preprocessing.inputs import imagenet_classes
from keras_vit.private import call_behind
from keras_vit.train.recipe import Data, Loss

BINS = 15  # of confidence


def example_losses(loss: Loss, targets, logits):
    """Cross entropy of each example, in float32: targets (B, K) and logits (B, K) -> (B,)."""
    logits = tf.cast(logits, tf.float32)
    if loss.label_smoothing:
        targets = targets * (1 - loss.label_smoothing) + loss.label_smoothing / tf.cast(targets.shape[-1], tf.float32)
    if loss.kind == "sigmoid":
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(targets, logits), axis=-1)
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def logits_model(model: keras.Model) -> keras.Model:
    """A model that shares `model`'s weights and ends before its softmax or sigmoid."""
    model = flattened(model)
    output = model.outputs[0]
    last = call_behind(output)
    if last.operation.name == "predictions":
        # Not `get_layer("head").output`: it is ambiguous where the layer serves other image sizes, too.
        output = last.input_tensors[0]
    return VisionModel(model.input, output, name=f"{model.name}_logits")


def evaluator(
    model: keras.Model,
    loss: Loss | None = None,
    metrics: tuple[str, ...] = ("accuracy",),
    among: Sequence[int] | None = None,
    flip: bool = False,
):
    """A compiled function of a batch (images, labels, weights) -> its sums, which `evaluate` turns into means.

    The loss is reported without the label smoothing of training. Labels are classes (B,), or sets of right ones
    (B, K), as ImageNet-ReaL's: then an image counts whose set is not empty, and is right if its best class is in it.
    With `among` only these classes may be answered, as on ImageNet-R and -A, which have 200 of the 1,000. With `flip`
    an answer is the mean of an image's logits and its mirror image's.
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
        if labels.shape.rank == 2:
            right = tf.cast(labels, tf.float32)
            weights = weights * tf.cast(tf.reduce_any(right > 0, axis=-1), tf.float32)
            shares = right if loss.kind == "sigmoid" else tf.math.divide_no_nan(
                right, tf.reduce_sum(right, axis=-1, keepdims=True)
            )  # fmt: skip
        else:
            right = shares = tf.one_hot(labels, logits.shape[-1])
        losses = example_losses(loss, shares, logits)
        hits = tf.gather(right, tf.argmax(logits, axis=-1), batch_dims=1)
        found = [tf.reduce_sum(values * weights) for values in (losses, hits, tf.ones_like(weights))]
        if "top5" in metrics:
            best = tf.math.top_k(logits, min(5, logits.shape[-1])).indices
            among = tf.reduce_max(tf.gather(right, best, batch_dims=1), axis=-1)
            found.append(tf.reduce_sum(among * weights))
        if "calibration" in metrics:
            scores = tf.sigmoid(logits) if loss.kind == "sigmoid" else tf.nn.softmax(logits)
            confidence = tf.reduce_max(scores, axis=-1)
            bins = tf.minimum(tf.cast(confidence * BINS, tf.int32), BINS - 1)
            gaps = tf.math.unsorted_segment_sum((confidence - hits) * weights, bins, BINS)
            return tf.concat([tf.stack(found), gaps], axis=0)
        return tf.stack(found)

    return sums


def evaluate(
    model: keras.Model, batches, loss: Loss | None = None, sums=None, metrics: tuple[str, ...] = ("accuracy",)
) -> dict:
    """Evaluate a classifier.

    Args:
        model: a model of this package with its top.
        batches: of (images, labels, weights), as `evaluation_batches` gives them.
        loss: which loss to report, without its label smoothing; softmax where None.
        sums: `evaluator(model, loss, metrics)`, where it is at hand already.
        metrics: of `accuracy`, `top5` and `calibration`, the expected error of the confidence over 15 bins of equal
            width (arXiv 1706.04599).

    Returns:
        `{"loss": mean, "accuracy": share in [0, 1], "examples": count}`, and `top5` and `calibration` if asked for;
        all but the count are NaN where the loss is not finite, for there the best class is none.
    """
    sums = sums or evaluator(model, loss, metrics)
    total = sum(tf.cast(sums(*batch), tf.float64) for batch in batches).numpy()
    if not np.isfinite(total[0]):
        total[[0, 1, *range(3, len(total))]] = np.nan
    loss, hits, count = total[:3]
    found = {"loss": float(loss / count), "accuracy": float(hits / count)}
    if "top5" in metrics:
        found["top5"] = float(total[3] / count)
    if "calibration" in metrics:
        found["calibration"] = float(np.abs(total[-BINS:]).sum() / count)
    return found | {"examples": round(count)}


def evaluate_model(
    model: keras.Model,
    data: Data,
    data_dir: str | None = None,
    loss: Loss | None = None,
    split: str | None = None,
    flip: bool = False,
    left_out: tuple[str, ...] = (),
) -> dict:
    """Evaluate a trained model, loaded from a `.keras` file for instance, on the test split of some data.

    Args:
        model: a model of this package with its top.
        data: where the examples come from; `recipe.data` for those that a recipe was trained with.
        data_dir: in place of the directory in `data`.
        loss: which loss to report; softmax where None.
        split: in place of the test split in `data`.
        flip: answer with the mean of an image's logits and its mirror image's, at twice the time. An exported model
            answers for the image alone.
        left_out: names of files that may be gone since training began, as `train.left_out.known_broken` returns them.

    Returns:
        `{"loss": mean, "accuracy": share in [0, 1], "examples": count}`.

    Raises:
        FileNotFoundError: the data is absent.
        ValueError: the model has no classifier, or not for these classes, or no image size; or a data file is broken
            or gone.
    """
    examples = open_data(data, split or data.test_split, data_dir, left_out)
    interface = model_interface(model)
    require_same_classes(model, examples.labels)
    batches = evaluation_batches(
        examples,
        batch_size=data.batch_size,
        input_shape=interface.image_shape,
        scale=not interface.takes_pixels,
        resize=data.resize,
    )
    with naming_broken_files(examples):
        return evaluate(model, batches, loss, evaluator(model, loss, flip=flip))


def has_same_classes(model: keras.Model, labels) -> bool:
    """Whether data's classes are those of a model, which may have no names for them, or none at all."""
    interface, labels = model_interface(model), tuple(labels)
    named = interface.classes is not None and flattened(model).get_layer("head").labels is not None
    numbers = tuple(number for number, _ in imagenet_classes())  # WordNet's, as ImageNet's data has them
    return interface.classes == len(labels) and (not named or labels in (interface.labels, numbers))


def require_same_classes(model: keras.Model, labels) -> None:
    """Raise a ValueError unless a model is a classifier of data's classes."""
    own = model_interface(model)
    if own.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name}, which has no top.")
    if not has_same_classes(model, labels):
        raise ValueError(
            f"data expected the model's {own.classes} classes ({_few(own.labels)}), found {len(labels)} "
            f"({_few(labels)})."
        )


def _few(labels) -> str:
    return ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
