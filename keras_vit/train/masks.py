"""Generate the random values of dropout for a part of a batch, equal to the values of one device.

Philox is a counter-based generator: the i-th group of four values is a function of (key, counter + i). Each part
computes the groups of its own examples.
"""

import math

import tensorflow as tf

_PHILOX, _GROUP = 1, 4  # TensorFlow's number of the algorithm; values per step of the counter


def uniform_of_part(part):
    """Return a function for `layers.use_random_values` that draws the values of one of the equal parts of a batch."""

    def uniform(shape, dtype, seed):
        # As Keras derives a seed from a generator's state, so that the parts equal what Keras draws for the whole.
        seed = tf.cast(tf.math.floormod(tf.cast(seed, tf.int64), tf.int32.max - 1), tf.int32)
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
        known = all(isinstance(side, int) for side in shape)
        count = tf.constant(math.prod(shape), tf.int64) if known else tf.reduce_prod(tf.cast(shape, tf.int64))
        first = tf.cast(part, tf.int64) * count
        draw = lambda shape: tf.raw_ops.StatelessRandomUniformV2(  # noqa: E731
            shape=shape, key=key, counter=_advanced(counter, first // _GROUP), alg=_PHILOX, dtype=dtype
        )
        if known and math.prod(shape) % _GROUP == 0:
            return draw(shape)
        values = draw([count + _GROUP - 1])  # a part may start inside a group
        return tf.reshape(tf.slice(values, [first % _GROUP], [count]), shape)

    return uniform


def _advanced(counter, steps):
    """Add int64 `steps` to a counter of 128 bits, uint64 (low, high)."""
    low = counter[0] + tf.cast(steps, tf.uint64)
    return tf.stack([low, counter[1] + tf.cast(low < counter[0], tf.uint64)])
