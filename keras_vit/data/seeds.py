"""Random numbers that hang on integers alone: no state, so that a resumed run and any worker draw the same ones."""

import tensorflow as tf

_GOLDEN = 0x9E3779B97F4A7C15


def _mixed(z):
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result hangs on every bit of `z`."""
    z = tf.cast(z, tf.uint64) + tf.constant(_GOLDEN, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(shift, tf.uint64)))
        z = z * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(31, tf.uint64)))


def key(*numbers):
    """One uint64 from several integers; equal inputs give equal keys, any other input another one."""
    z = tf.zeros((), tf.uint64)
    for number in numbers:
        z = _mixed(tf.bitwise.bitwise_xor(z, _mixed(number)))
    return z


def seed_pair(*numbers):
    """`key` as the int64 pair that TensorFlow's stateless operations take."""
    z = key(*numbers)
    return tf.stack([tf.bitcast(z, tf.int64), tf.bitcast(_mixed(z), tf.int64)], axis=-1)


def uniform(slot: int, *numbers):
    """Numbers in [0, 1) for `key(*numbers)`, another one for every `slot`."""
    return tf.cast(tf.bitwise.right_shift(key(*numbers, slot), tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24
