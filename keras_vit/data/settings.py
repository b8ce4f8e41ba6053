"""How our `tf.data` pipelines run."""

import os

import tensorflow as tf

BATCHES_AT_ONCE = min(4, os.cpu_count() or 1)  # that are worked on; examples: one a core
BATCHES_AHEAD = 2  # that lie ready


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset that ends at once, as its settings are not looked at while it runs.

    TensorFlow's tuning (2.21) looks at a pipeline after 10 ms, 20 more, 40 more, at last every minute. An iterator
    that ends wakes it just before it says that it has ended, so that it often falls asleep again, and the iterator
    waits for it: an evaluation may take up to twice its time, the end of a training stage a minute.

    Without it `tf.data.AUTOTUNE` calls a map's function once a core.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.autotune.initial_parallelism = 2**16  # at most; there are no more calls than cores
    return dataset.with_options(options)


def batches_of_array(array, batch_size: int = 32) -> tf.data.Dataset:
    """An array (N, ...) as batches (B, ...) for Keras's `predict`, whose own of an array are tuned."""
    return untuned(tf.data.Dataset.from_tensor_slices(array).batch(batch_size))
