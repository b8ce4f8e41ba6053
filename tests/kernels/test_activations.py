"""GELU compiled by XLA against the reference."""

import numpy as np
import pytest
import tensorflow as tf
from kernels.implementations import ACTIVATIONS
from support import max_difference


def value_and_slope(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x, 2.0 * tf.ones_like(y)) / 2.0


@pytest.mark.parametrize(("form", "plain"), ACTIVATIONS)
def test_value_and_gradient_are_the_plain_ones(form, plain):
    x = tf.linspace(-12.0, 12.0, 4001)
    for fast, slow in zip(value_and_slope(form, x), value_and_slope(plain, x), strict=True):
        assert max_difference(fast, slow) < 1e-5


@pytest.mark.parametrize(("form", "plain"), ACTIVATIONS)
def test_half_precision_rounds_once(form, plain):
    x = tf.linspace(-6.0, 6.0, 4001)
    exact = value_and_slope(plain, tf.cast(tf.cast(x, tf.bfloat16), tf.float32))
    for fast, slow in zip(value_and_slope(form, tf.cast(x, tf.bfloat16)), exact, strict=True):
        assert fast.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(fast, tf.float32), slow, rtol=2**-8, atol=2**-9)


@pytest.mark.parametrize("form", [form for form, _ in ACTIVATIONS])
def test_the_gradient_of_gelu_is_one_pass(form):
    graph = tf.function(lambda x: value_and_slope(form, x)[1]).get_concrete_function(tf.TensorSpec((4, 8))).graph
    types = [operation.type for operation in graph.get_operations()]
    assert not {"Tanh", "Erf"} & set(types) and types.count("PartitionedCall") == 2
