"""Dropout of parts of a batch: the masks that one device draws for the same examples."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.kernels.recompute import with_values
from keras_vit.layers import StochasticDepth, use_random_values
from keras_vit.layers.dropout import Dropout
from keras_vit.train.masks import _advanced, uniform_of_part
from keras_vit.train.step import dropout_states

pytestmark = needs_tensorflow


def masks(layer, x, step, uniform=None):
    """What a layer makes of x at a step of a run, called twice as an MLP block calls its dropout."""
    with with_values(dropout_states([layer.seed_generator.state], 3, step)), use_random_values(uniform):
        return tf.stack([layer(x, training=True), layer(x, training=True)]).numpy()


@pytest.mark.parametrize("shape", [(12, 4), (12, 5), (12, 3, 7, 7), (36, 8)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [Dropout, StochasticDepth])
def test_parts_have_the_masks_that_keras_draws_for_the_whole(kind, dtype, shape):
    layer, whole = kind(0.3, dtype=dtype), tf.ones(shape, dtype)
    expected = masks(layer, whole, 5)
    for parts in (2, 3, 6):
        pieces = [masks(layer, x, 5, uniform_of_part(i)) for i, x in enumerate(tf.split(whole, parts))]
        np.testing.assert_array_equal(np.concatenate(pieces, axis=1), expected)
    assert not np.array_equal(expected[0], expected[1])  # the second call draws anew
    assert not np.array_equal(expected, masks(layer, whole, 6))


def test_rows_of_one_image_are_dropped_together_in_parts():
    layer, whole = StochasticDepth(0.5), tf.ones((24, 3, 2))
    with with_values(dropout_states([layer.seed_generator.state], 3, 5)):
        expected = layer(whole, lines=4, training=True).numpy()
    for i, x in enumerate(tf.split(whole, 2)):
        with with_values(dropout_states([layer.seed_generator.state], 3, 5)), use_random_values(uniform_of_part(i)):
            np.testing.assert_array_equal(layer(x, lines=4, training=True), expected[12 * i : 12 * i + 12])


def test_compiled_by_xla_parts_have_the_masks_of_the_whole():
    """As a GPU's replicas compute them, with the part's number a tensor; XLA's values are not those of the kernels."""
    layer, step = Dropout(0.3), tf.constant(5, tf.int64)

    @tf.function(jit_compile=True)
    def dropped(x, part=None):
        uniform = None if part is None else uniform_of_part(part)
        with with_values(dropout_states([layer.seed_generator.state], 3, step)), use_random_values(uniform):
            return layer(x, training=True)

    found = [dropped(x, tf.constant(i)) for i, x in enumerate(tf.split(tf.ones((6, 5)), 3))]
    np.testing.assert_array_equal(np.concatenate(found), dropped(tf.ones((6, 5))))


def test_a_counter_carries_into_its_upper_half():
    counter = tf.constant([2**64 - 2, 7], tf.uint64)
    assert _advanced(counter, tf.constant(5, tf.int64)).numpy().tolist() == [3, 8]
    assert _advanced(counter, tf.constant(1, tf.int64)).numpy().tolist() == [2**64 - 1, 7]


def test_outside_of_training_nothing_is_dropped():
    with use_random_values(uniform_of_part(1)):
        assert np.array_equal(Dropout(0.5)(tf.ones(8)), np.ones(8)) and Dropout(0.0)(tf.ones(8), training=True)[0] == 1
