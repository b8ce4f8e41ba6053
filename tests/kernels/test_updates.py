"""An optimizer's update as a loop: in the variable's own memory, and not under the eyes of who still reads it.

Its numbers are compared with torch's and optax's in tests/train/test_optimizer.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.kernels import updates
from keras_vit.train.optim.optimizer import build_optimizer
from keras_vit.train.recipe import Optimizer

pytestmark = needs_tensorflow
SIDE = 256  # SIDE ** 2 numbers are worth a loop


@pytest.fixture
def variable():
    return keras.Variable(tf.random.stateless_normal((SIDE, SIDE), (0, 0)), name="kernel")


def _update_of(settings, variable):
    optimizer = build_optimizer(settings, 0.1, [variable])
    return optimizer, tf.function(lambda gradient: optimizer.apply([gradient], [variable]))


def _place(variable):
    return np.asarray(memoryview(variable.value.read_value())).__array_interface__["data"][0]


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_weights_and_means_stay_where_they_are_in_memory(kind, variable):
    optimizer, update = _update_of(Optimizer(kind), variable)
    kept = [variable, *optimizer._slots[0]]
    gradient = tf.ones((SIDE, SIDE))
    update(gradient)
    before = [(_place(numbers), np.array(numbers)) for numbers in kept]
    update(gradient)
    for (place, old), numbers in zip(before, kept, strict=True):
        assert _place(numbers) == place and np.abs(np.array(numbers) - old).min() > 0


def test_who_still_reads_the_old_weights_has_them(variable):
    _, update = _update_of(Optimizer("adamw"), variable)
    before, old = np.array(variable), variable.value.read_value()
    update(tf.ones((SIDE, SIDE)))
    assert np.array_equal(old, before) and not np.array_equal(variable, before)


@pytest.mark.parametrize(
    ("kind", "moment_dtype", "loops"),
    [("adamw", "float32", 1), ("adamw", "bfloat16", 1), ("sgd", "bfloat16", 1), ("lamb", "float32", 0)],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gradient_of_either_type_gives_the_update_of_float32(kind, moment_dtype, loops, dtype, monkeypatch, variable):
    gradient = tf.cast(tf.random.stateless_normal((SIDE, SIDE), (1, 1)), dtype)
    settings, start = Optimizer(kind, weight_decay=0.3, moment_dtype=moment_dtype), np.array(variable)
    found = []
    for large, expected_loops in ((2**15, loops), (2**30, 0)):
        monkeypatch.setattr(updates, "LARGE", large)
        variable.assign(start)
        _, update = _update_of(settings, variable)
        update(gradient), update(gradient)
        nodes = update.get_concrete_function(gradient).graph.as_graph_def().library.function
        assert sum("_XlaMustCompile" in function.attr for function in nodes) == expected_loops
        found.append(np.array(variable))
    assert np.abs(found[0] - start).max() > 0.01
    np.testing.assert_allclose(*found, rtol=0, atol=1e-5)  # of steps of 0.1: the plain form corrects in float32


@pytest.mark.parametrize("shape", [(48, 20), (7, 1)])
def test_squares_are_added_up_in_float32(shape):
    gradient = tf.cast(tf.random.stateless_normal(shape, (0, 1)), tf.bfloat16)
    expected = np.square(np.asarray(tf.cast(gradient, tf.float64))).sum()
    np.testing.assert_allclose(updates.sum_of_squares(gradient), expected, rtol=1e-6)
