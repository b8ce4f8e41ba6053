"""Count the classes of a split, and take each class equally often.

N examples, K classes.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples
from keras_vit.data.pipeline import one_hot
from keras_vit.data.settings import untuned


def class_counts(examples: Examples, option: str) -> np.ndarray:
    """Return the number of examples of each class, float64 (K,), including files that are left out as broken.

    A stream of TensorFlow Datasets is read once, without decoding its images.

    Args:
        examples: the split.
        option: the option that needs the counts, such as `sampling 'balanced'`, for the message.

    Raises:
        ValueError: a class has no example.
    """
    examples = examples.whole or examples
    counts = examples.counts
    if counts is None:
        hot = untuned(examples.stream().map(lambda index, image, label: _hot(label, examples)))
        counts = hot.reduce(tf.zeros(len(examples.labels), tf.float64), lambda total, row: total + row).numpy()
    missing = [label for label, count in zip(examples.labels, counts, strict=True) if not count]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(f"{option} expected training images of each class, found none of {', '.join(missing[:3])}"
                         f"{more}; add images, or remove the class.")  # fmt: skip
    return np.asarray(counts, "float64")


def _hot(label, examples: Examples):
    hot = one_hot(label, examples) if examples.multi else tf.one_hot(label, len(examples.labels))
    return tf.cast(hot, tf.float64)


def balanced(examples: Examples, source: str) -> Examples:
    """Return a split whose shuffled stream has each class equally often, and as many examples as before.

    Every K examples in a row are one of each class, in random order. Of each class, the examples come in random order,
    and again when all of them were drawn. Both orders depend on the stream's seed only. The r-th repetition of example
    i has the index i + r * N', where all indices are below N'; the augmentation depends on the index.

    Raises:
        ValueError: an image has several classes, the classes are only known while the data is read, or a class has no
            example.
    """
    if examples.multi:
        raise ValueError("sampling expected 'uniform' with several classes per image, received 'balanced'; the loss "
                         "'sigmoid' with class_weights 'balanced' fits.")  # fmt: skip
    if examples.select is None:
        raise ValueError(f"sampling expected 'uniform' with {source}, which is read as a stream, received 'balanced'; "
                         "class_weights 'balanced' or logit_adjustment of the loss fit.")  # fmt: skip
    class_counts(examples, "sampling 'balanced'")
    targets = examples.targets
    counts = np.bincount(targets, minlength=len(examples.labels))
    if not counts.all():
        raise ValueError("sampling 'balanced' expected training images that can be read of each class, found none of "
                         f"{examples.labels[int(np.argmin(counts))]}; add images, or remove the class.")  # fmt: skip

    def stream(seed=None):
        if seed is None:
            return examples.stream()
        order, repetitions = balanced_order(targets, counts, seed)
        rows = examples.select(order)
        apart = tf.data.Dataset.from_tensor_slices(repetitions * (examples.whole or examples).count)
        return tf.data.Dataset.zip((apart, rows)).map(lambda more, row: (row[0] + more, *row[1:]))

    return dataclasses.replace(examples, stream=stream)


def balanced_order(targets: np.ndarray, counts: np.ndarray, seed):
    """Return the positions of N balanced examples, and how often each was drawn before: int64 (N,) both.

    Args:
        targets: class of each example, (N,).
        counts: number of examples of each class, (K,), at least 1 each.
        seed: an int64 tensor ().
    """
    total, classes = len(targets), len(counts)
    rounds = -(-total // classes)  # of one example per class
    shuffled = tf.random.experimental.stateless_shuffle(tf.range(total, dtype=tf.int64), seed=tf.stack([seed, 0]))
    members = tf.gather(shuffled, tf.argsort(tf.gather(tf.constant(targets), shuffled), stable=True))  # by class
    draws = tf.random.stateless_uniform((rounds, classes), tf.stack([seed, 1]))
    drawn = tf.reshape(tf.argsort(draws, stable=True), (-1,))[:total]  # classes
    number = tf.repeat(tf.range(rounds, dtype=tf.int64), classes)[:total]  # of earlier draws of the same class
    count = tf.gather(tf.constant(counts, tf.int64), drawn)
    first = tf.gather(tf.constant(np.cumsum(counts) - counts, tf.int64), drawn)
    return tf.gather(members, first + number % count), number // count
