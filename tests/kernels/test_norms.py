"""Norms compiled by XLA against the reference."""

import numpy as np
import pytest
import tensorflow as tf
from kernels.implementations import NORMS
from support import first_quick

from keras_vit.kernels import norms, onednn
from keras_vit.layers import encoder, stdconv


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("form", "plain", "shape"),
    [
        *NORMS,
        (norms.layer_norm, encoder.layer_norm, (4, 8, 64)),
        (norms.inference_layer_norm, encoder.layer_norm, (3, 7, 64)),
    ],
)
def test_a_norm_has_the_plain_value_and_gradients(form, plain, shape, dtype):
    x, towards = (tf.cast(tf.random.stateless_normal(shape, (i, 2), 1.0, 3.0), dtype) for i in (1, 2))
    gamma, beta = tf.linspace(-1.0, 2.0, 64), tf.linspace(3.0, 0.0, 64)

    def all_of(form):
        with tf.GradientTape() as tape:
            tape.watch([x, gamma, beta])
            y = form(x, gamma, beta, 1e-6)
        return y, *tape.gradient(y, [x, gamma, beta], tf.cast(towards, y.dtype))

    found, expected = all_of(form), all_of(plain)
    assert [a.dtype for a in found[1:]] == [x.dtype, tf.float32, tf.float32]
    for new, old in zip(found, expected, strict=True):
        rounding = 1e-5 if new.dtype == old.dtype == tf.float32 else 2**-7
        np.testing.assert_allclose(tf.cast(new, tf.float32), tf.cast(old, tf.float32), rtol=rounding, atol=1e-5)


@pytest.mark.parametrize(("form", "plain", "shape"), NORMS)
def test_a_norm_has_its_gradients_of_any_number_of_images_and_pixels(form, plain, shape):
    x, gamma, beta = tf.random.stateless_normal(shape, (1, 2)), tf.linspace(-1.0, 2.0, 64), tf.linspace(3.0, 0.0, 64)

    @tf.function(input_signature=[tf.TensorSpec((None,) * (len(shape) - 1) + (64,))])
    def gradients_of_form(x):
        return gradients(form, x)

    def gradients(form, x):
        with tf.GradientTape() as tape:
            tape.watch([x, gamma, beta])
            y = form(x, gamma, beta, 1e-6)
        return tape.gradient(y, [x, gamma, beta], y)

    for new, old in zip(gradients_of_form(x), gradients(plain, x), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)


def test_a_group_norm_is_a_few_operations_for_tensorflow_to_trace():
    """There are 49 in a ResNet-50, and a first step waits for each operation: of `repeat` alone there were thirty."""

    @tf.function
    def both(x, gamma, beta, gradient):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = norms.group_norm(x, gamma, beta, 1e-6)
        return tape.gradient(y, x, gradient)

    feature_map, channels = tf.TensorSpec((None, 4, 4, 64)), tf.TensorSpec(64)
    operations = both.get_concrete_function(feature_map, channels, channels, feature_map).graph.get_operations()
    assert 0 < sum(operation.type not in ("Const", "Placeholder") for operation in operations) < 60


@pytest.mark.parametrize("epsilon", [1e-10, 0.3])
def test_a_standardised_kernel_has_the_plain_value_and_gradient(epsilon):
    kernel, towards = (tf.random.stateless_normal((3, 3, 40, 24), (i, 2), 1.0, 0.5) for i in (1, 2))

    def both_of(form):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            y = form(kernel, epsilon, "variance")
        return y, tape.gradient(y, kernel, towards)

    for new, old in zip(both_of(norms.standardized), both_of(stdconv.standardized), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("by_onednn", [True, False])
@pytest.mark.parametrize("epsilon", first_quick([1e-12, 0.5]))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_layer_norm_of_a_forward_pass_rounds_once(dtype, epsilon, by_onednn, monkeypatch):
    if by_onednn and not all(onednn.has_layer_norm(type_) for type_ in (tf.float32, tf.as_dtype(dtype))):
        pytest.skip(f"TensorFlow has no layer normalisation by oneDNN here in {dtype}")
    if not by_onednn:
        monkeypatch.setattr(onednn, "has_layer_norm", lambda dtype: False)
    x = tf.cast(tf.random.stateless_normal((3, 7, 64), (1, 2), 1.0, 0.3), dtype)
    gamma, beta = tf.linspace(-1.0, 2.0, 64), tf.linspace(3.0, 0.0, 64)
    for stored in ("float32", "bfloat16"):
        arguments = x, *(tf.cast(tf.cast(value, stored), tf.float32) for value in (gamma, beta)), epsilon
        found, expected = norms.inference_layer_norm(*arguments, stored=stored), encoder.layer_norm(*arguments)
        assert found.dtype == x.dtype and found.shape == x.shape
        rounding = 1e-5 if dtype == "float32" else 2**-8
        np.testing.assert_allclose(tf.cast(found, tf.float32), expected, rtol=rounding, atol=1e-5)


def test_any_float_is_an_epsilon_and_the_width_may_be_unknown():
    x, gamma, beta = tf.random.stateless_normal((3, 7, 64), (1, 2)), tf.linspace(-1.0, 2.0, 64), tf.ones(64)
    form = tf.function(lambda x: norms.inference_layer_norm(x, gamma, beta, np.float64(1e-6)))
    found = form.get_concrete_function(tf.TensorSpec(None))(x)
    np.testing.assert_allclose(found, encoder.layer_norm(x, gamma, beta, 1e-6), atol=1e-5)


def test_functions_that_run_eagerly_have_a_layer_norm_too():
    x = tf.random.stateless_normal((3, 7, 64), (1, 2))
    given = x, tf.ones(64), tf.zeros(64), 1e-6
    expected = norms.inference_layer_norm(*given)
    tf.config.run_functions_eagerly(True)
    try:
        found = norms.inference_layer_norm(*given)
    finally:
        tf.config.run_functions_eagerly(False)
    np.testing.assert_allclose(found, expected, atol=1e-5)
