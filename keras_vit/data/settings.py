"""Settings of the `tf.data` pipelines."""

import os

import tensorflow as tf

BATCHES_AT_ONCE = min(4, os.cpu_count() or 1)  # batches computed in parallel; examples: one per core
BATCHES_AHEAD = 2  # prefetched batches


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a dataset that TensorFlow does not tune at run time.

    TensorFlow's tuning thread (2.21) sleeps for growing intervals, at last a minute. The end of an iterator often waits
    for the thread. Without tuning, `tf.data.AUTOTUNE` means one call of a map's function per core.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.autotune.initial_parallelism = 2**16  # an upper limit; the number of cores is the effective one
    return dataset.with_options(options)


def batches_of_array(array, batch_size: int = 32) -> tf.data.Dataset:
    """Return an array (N, ...) as untuned batches (B, ...) for Keras's `predict`, which would tune its own."""
    return untuned(tf.data.Dataset.from_tensor_slices(array).batch(batch_size))
