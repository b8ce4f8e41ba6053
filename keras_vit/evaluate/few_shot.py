"""A linear head on frozen features, fitted to a few examples of each class (section 4.1, "few-shot")."""

from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from keras_vit.data.settings import untuned
from keras_vit.data.sources import Examples
from keras_vit.evaluate.ridge import SEEDS, few_of_each, few_shot_accuracies
from keras_vit.models.features import head_features


def squeezed(size: tuple[int, int]) -> tuple[int, int]:
    """The (height, width) that images are brought to, whatever their shape, before the middle of `size` is cut out.

    256 pixels where it is 224, as in big_vision's few-shot evaluation.
    """
    return tuple(round(side * 256 / 224) for side in size)


def features_of(model: keras.Model):
    """Return a compiled function: images (B, H, W, C) -> what the classifier takes, float32 (B, D)."""
    frozen = head_features(model)
    return tf.function(lambda images: tf.cast(frozen(images, training=False), tf.float32))


def rows_of(features):
    """A function of a batch (images, labels, weights) -> the same with `features` of the images in their place."""
    return lambda images, labels, weights: (features(images), labels, weights)


def few_shot(rows, train: Examples, test: Examples, shots: tuple[int, ...], batches_of) -> dict:
    """Accuracy on the test split of heads fitted to so many examples a class.

    Args:
        rows: `rows_of(features_of(model))`, or what shares it out.
        train: examples to draw from.
        test: examples to measure on.
        shots: how many of each class.
        batches_of: a split -> batches of (images, labels, weights).

    Returns:
        `{"few_shot_5": share in [0, 1], ...}`.

    Raises:
        ValueError: an image has several classes.
    """
    if train.multi or test.multi:
        raise ValueError("few_shot expected data of one class an image, received images of several classes.")
    pairs = untuned(train.stream().map(lambda index, _, label: (index, label))).as_numpy_iterator()
    indices, labels = (np.array(column) for column in zip(*pairs, strict=True))
    draws = {count: [few_of_each(labels, count, seed) for seed in SEEDS] for count in shots}
    drawn = np.unique(np.concatenate([rows for of_count in draws.values() for rows in of_count]))
    chosen = _features(rows, batches_of(_only(train, indices[drawn], indices.max() + 1)))  # each image once
    held, classes = _features(rows, batches_of(test)), len(train.labels)
    found = {}
    for count, of_count in draws.items():
        few = [np.searchsorted(drawn, indices) for indices in of_count]
        found[f"few_shot_{count}"] = float(few_shot_accuracies(chosen, held, classes, few).mean())
    return found


def _only(examples: Examples, chosen, size) -> Examples:
    """The split of the chosen indices."""
    kept = np.zeros(size, bool)
    kept[chosen] = True
    return replace(
        examples, count=len(chosen),
        stream=lambda seed=None: examples.stream(seed).filter(lambda i, *_: tf.gather(tf.constant(kept), i)),
    )  # fmt: skip


def _features(rows, batches):
    """(N, D) and labels (N,) of all examples."""
    found, labels = [], []
    for batch in batches:
        some, classes, weights = (x.numpy() for x in rows(*batch))
        found.append(some[weights > 0])
        labels.append(classes[weights > 0])
    return np.concatenate(found), np.concatenate(labels)
