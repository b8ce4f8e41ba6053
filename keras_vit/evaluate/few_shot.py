"""Fit a linear head to frozen features of a few examples per class (section 4.1, "few-shot").

B batch, H W C image, N examples, D features.
"""

from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from keras_vit.data.settings import untuned
from keras_vit.data.sources import Examples
from keras_vit.evaluate.ridge import SEEDS, few_shot_accuracies, sample_per_class
from keras_vit.models.features import head_features


def size_before_crop(size: tuple[int, int]) -> tuple[int, int]:
    """Return the (height, width) to which images are resized before the center crop to `size`.

    It is 256 pixels for 224, as in big_vision's few-shot evaluation.
    """
    return tuple(round(side * 256 / 224) for side in size)


def feature_function(model: keras.Model):
    """Return a compiled function: images (B, H, W, C) -> the input of the classifier, float32 (B, D)."""
    features = head_features(model)
    return tf.function(lambda images: tf.cast(features(images, training=False), tf.float32))


def replace_images(features):
    """Return a function of a batch (images, labels, weights) that replaces the images by their `features`."""
    return lambda images, labels, weights: (features(images), labels, weights)


def few_shot(extract, train: Examples, test: Examples, shots: tuple[int, ...], batches_of) -> dict:
    """Return the test accuracy of heads that are fitted to a few examples per class.

    Args:
        extract: `replace_images(feature_function(model))`, or the same distributed over devices.
        train: examples to sample from.
        test: test examples.
        shots: numbers of examples per class.
        batches_of: a function of a split that returns batches of (images, labels, weights).

    Returns:
        `{"few_shot_5": accuracy in [0, 1], ...}`.

    Raises:
        ValueError: an image has several classes.
    """
    if train.multi or test.multi or {train.kind, test.kind} != {"classes"}:
        raise ValueError("few_shot expected one class per image, received images of several classes.")
    pairs = untuned(train.stream().map(lambda index, _, label: (index, label))).as_numpy_iterator()
    indices, labels = (np.array(column) for column in zip(*pairs, strict=True))
    draws = {count: [sample_per_class(labels, count, seed) for seed in SEEDS] for count in shots}
    sampled = np.unique(np.concatenate([sample for samples in draws.values() for sample in samples]))
    split = _select(train, indices[sampled], indices.max() + 1)
    train_features = _features(extract, batches_of(split))  # each image once
    test_features, classes = _features(extract, batches_of(test)), len(train.labels)
    accuracies = {}
    for count, samples in draws.items():
        positions = [np.searchsorted(sampled, sample) for sample in samples]
        scores = few_shot_accuracies(train_features, test_features, classes, positions)
        accuracies[f"few_shot_{count}"] = float(scores.mean())
    return accuracies


def _select(examples: Examples, indices, size) -> Examples:
    """Return the examples of the given indices."""
    selected = np.zeros(size, bool)
    selected[indices] = True
    return replace(
        examples, count=len(indices),
        stream=lambda seed=None: examples.stream(seed).filter(lambda i, *_: tf.gather(tf.constant(selected), i)),
    )  # fmt: skip


def _features(extract, batches):
    """Return features (N, D) and labels (N,) of all examples."""
    features, labels = [], []
    for batch in batches:
        values, classes, weights = (x.numpy() for x in extract(*batch))
        features.append(values[weights > 0])
        labels.append(classes[weights > 0])
    return np.concatenate(features), np.concatenate(labels)
