"""Loss and accuracy of a model.

B batch, K classes.
"""

import keras
import tensorflow as tf

from keras_vit.data.pipeline import evaluation_batches
from keras_vit.data.sources import open_split
from keras_vit.models.interface import describe
from keras_vit.train.recipe import Data, Loss


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
    return keras.Model(model.inputs, model.get_layer("head").output, name=f"{model.name}_logits")


def evaluator(model: keras.Model, loss: Loss | None = None):
    """A compiled function of a batch (images, labels, weights) -> its sums of loss, of hits and of weights.

    The loss is reported without the label smoothing of training.
    """
    logits_of = logits_model(model)
    loss = Loss(loss.kind) if loss else Loss()

    @tf.function
    def sums(images, labels, weights):
        logits = logits_of(images, training=False)
        losses = example_losses(loss, tf.one_hot(labels, logits.shape[-1]), logits)
        hits = tf.cast(tf.argmax(logits, axis=-1) == tf.cast(labels, tf.int64), tf.float32)
        return tf.stack([tf.reduce_sum(losses * weights), tf.reduce_sum(hits * weights), tf.reduce_sum(weights)])

    return sums


def evaluate(model: keras.Model, batches, loss: Loss | None = None, sums=None) -> dict:
    """Evaluate a classifier.

    Args:
        model: a model of this package with its top.
        batches: of (images, labels, weights), as `evaluation_batches` gives them.
        loss: which loss to report, without its label smoothing; softmax where None.
        sums: `evaluator(model, loss)`, where it is at hand already.

    Returns:
        `{"loss": mean, "accuracy": share in [0, 1], "examples": count}`.
    """
    sums = sums or evaluator(model, loss)
    total = sum((tf.cast(sums(*batch), tf.float64) for batch in batches), tf.zeros(3, tf.float64)).numpy()
    return {"loss": float(total[0] / total[2]), "accuracy": float(total[1] / total[2]), "examples": round(total[2])}


def evaluate_model(
    model: keras.Model, data: Data, data_dir: str | None = None, loss: Loss | None = None, split: str | None = None
) -> dict:
    """Evaluate a trained model, loaded from a `.keras` file for instance, on the test split of some data.

    Args:
        model: a model of this package with its top.
        data: where the examples come from; `recipe.data` for those that a recipe was trained with.
        data_dir: in place of the directory in `data`.
        loss: which loss to report; softmax where None.
        split: in place of the test split in `data`.

    Returns:
        `{"loss": mean, "accuracy": share in [0, 1], "examples": count}`.

    Raises:
        FileNotFoundError: the data is absent.
        ValueError: the model has no classifier, or not for these classes.
    """
    examples = open_split(data.source, split or data.test_split, data_dir or data.directory)
    interface = describe(model)
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name}, which has no top.")
    named = model.get_layer("head").labels is not None
    if interface.classes != len(examples.labels) or (named and interface.labels != examples.labels):
        raise ValueError(
            f"data expected the model's {interface.classes} classes ({_few(interface.labels)}), found "
            f"{len(examples.labels)} ({_few(examples.labels)})."
        )
    batches = evaluation_batches(
        examples,
        batch_size=data.batch_size,
        input_shape=(*interface.image_size, interface.input_shape[2]),
        scale=not interface.takes_pixels,
    )
    return evaluate(model, batches, loss)


def _few(labels) -> str:
    return ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
