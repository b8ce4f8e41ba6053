"""Draw random values as functions of integers. Without a state, a resumed run and every worker draw the same values."""

import numpy as np
import tensorflow as tf

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(z):
    """Apply the finaliser of SplitMix64 (Steele, Lea, Flood 2014), whose every output bit depends on every input bit.

    NumPy mixes known integers, which keeps them out of the graph.
    """
    known = not tf.is_tensor(z)
    z = np.uint64(int(z) % 2**64) if known else tf.cast(z, tf.uint64)
    shifted = np.right_shift if known else tf.bitwise.right_shift
    with np.errstate(over="ignore"):
        z = z + _GOLDEN
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = _xor(z, shifted(z, np.uint64(shift))) * np.uint64(factor)
        return _xor(z, shifted(z, np.uint64(31)))


def _xor(one, other):
    tensors = tf.is_tensor(one) or tf.is_tensor(other)
    return tf.bitwise.bitwise_xor(one, other) if tensors else np.bitwise_xor(one, other)


def key(*numbers):
    """Hash several integers to one uint64."""
    z = np.uint64(0)
    for number in numbers:
        z = _mixed(_xor(z, _mixed(number)))
    return z


def seed_pair(*numbers):
    """Return `key(*numbers)` as an int64 pair, the seed of TensorFlow's stateless operations."""
    z = key(*numbers)
    return tf.stack([tf.bitcast(z, tf.int64), tf.bitcast(_mixed(z), tf.int64)], axis=-1)


def uniform(slot, *numbers):
    """Return uniform values in [0, 1) as a function of `slot` and `numbers`, which are broadcast."""
    return tf.cast(tf.bitwise.right_shift(key(*numbers, slot), tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24
