"""oneDNN's operations against plain operations."""

import importlib
import platform

import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_onednn, needs_tensorflow, run_python

from keras_vit.kernels import onednn
from keras_vit.kernels.onednn import prepacked_matmul
from keras_vit.kernels.split_matmuls import biased_matmul
from keras_vit.layers.mlp import gelu, gelu_tanh

pytestmark = needs_tensorflow
WIDTH, WIDE = 32, 48


@pytest.fixture
def has_prepacked_matmul():
    if not onednn.has_prepacked_matmul():
        pytest.skip("TensorFlow has no such product by oneDNN here")


def weights(dtype="bfloat16"):
    """A kernel (`WIDTH`, `WIDE`) and a bias."""
    numbers = tf.random.stateless_normal((WIDTH + 1, WIDE), (1, 2), stddev=WIDTH**-0.5)
    return tf.cast(numbers[:-1], dtype), tf.cast(3 * numbers[-1], dtype)


def rows(count, dtype="bfloat16"):
    return tf.cast(tf.random.stateless_normal((count, WIDTH), (3, count)), dtype)


def of_any_count(call, dtype="bfloat16"):
    """One graph for any number of tokens."""
    return tf.function(call, [tf.TensorSpec((None, WIDTH), dtype)], autograph=False)


def kinds(call):
    return [operation.type for operation in call.get_concrete_function().graph.get_operations()]


@pytest.mark.parametrize("activation", [None, gelu, gelu_tanh, tf.nn.relu])
def test_a_prepacked_matmul_equals_the_matmul_for_any_number_of_tokens(has_prepacked_matmul, activation):
    kernel, bias = weights()
    call = of_any_count(lambda x: prepacked_matmul(x, kernel, bias, activation))
    assert "_MklNativeFusedMatMul" in kinds(call) and "MatMul" not in kinds(call)
    exact = [tf.cast(weight, tf.float32) for weight in (kernel, bias)]
    for count in (5, 1, 7, 300, 16, 5):
        x = rows(count)
        expected = biased_matmul(tf.cast(x, tf.float32), *exact, activation)
        np.testing.assert_allclose(tf.cast(call(x), tf.float32), expected, rtol=2**-7, atol=2**-7)


def test_each_matmul_of_a_graph_has_its_own_kernel(has_prepacked_matmul):
    kernel, bias = weights()
    call = of_any_count(lambda x: [prepacked_matmul(x, kernel * scale, bias) for scale in (1, -2)])
    for count in (4, 9):
        x = rows(count)
        for answer, scale in zip(call(x), (1, -2), strict=True):
            assert max_difference(answer, biased_matmul(x, kernel * scale, bias)) < 0.05


@pytest.mark.parametrize("activation", [None, gelu, gelu_tanh])
def test_a_prepacked_matmul_has_the_gradients_of_the_matmul(has_prepacked_matmul, activation):
    (kernel, bias), x = weights(), rows(7)

    def of(product):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel, bias])
            y = tf.function(product, autograph=False)(x, kernel, bias, activation)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
        return tape.gradient(loss, [x, kernel, bias])

    for found, expected in zip(of(prepacked_matmul), of(biased_matmul), strict=True):
        largest = float(tf.reduce_max(tf.abs(expected)))
        assert max_difference(found, expected) < 0.02 * largest


def test_elsewhere_the_plain_product_takes_its_place(monkeypatch):
    kernel, bias = weights("float32")
    plain = of_any_count(lambda x: prepacked_matmul(x, kernel, bias, gelu), "float32")
    assert "MatMul" in kinds(plain) and "_MklNativeFusedMatMul" not in kinds(plain), "float32"
    expected = biased_matmul(rows(4, "float32"), kernel, bias, gelu)
    assert max_difference(plain(rows(4, "float32")), expected) < 1e-5
    kernel, bias = weights()
    expected = biased_matmul(rows(4), kernel, bias)
    assert max_difference(prepacked_matmul(rows(4), kernel, bias), expected) == 0, "eagerly"
    monkeypatch.setattr(onednn, "has_prepacked_matmul", lambda: False)
    call = of_any_count(lambda x: prepacked_matmul(x, kernel, bias))
    assert "MatMul" in kinds(call) and max_difference(call(rows(4)), expected) < 0.05


@needs_onednn
def test_tensorflow_has_onednns_where_its_wheels_do():
    assert onednn.has_layer_norm(tf.float32)


def test_onednn_is_not_asked_for_what_it_does_not_have(monkeypatch):
    assert not onednn.has_layer_norm(tf.float64)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not onednn.has_layer_norm.__wrapped__(tf.float32) and not onednn.has_prepacked_matmul.__wrapped__()


@pytest.mark.broad
def test_a_processor_that_onednn_has_no_product_for_is_not_asked():
    if platform.machine() != "x86_64":
        pytest.skip("instructions of x86")
    code = (
        "import os; os.environ['ONEDNN_MAX_CPU_ISA'] = 'AVX2'\n"  # has none for bfloat16: asking would end the process
        "from keras_vit.kernels import onednn\nprint(onednn.has_prepacked_matmul())\n"
    )
    assert run_python(code).split()[-1] == "False"


@needs_onednn
def test_an_operation_that_is_not_there_or_answers_otherwise_is_not_taken(monkeypatch):
    assert onednn.has_layer_norm.__wrapped__(tf.float32)
    monkeypatch.setattr(onednn, "ONEDNN_NORM", "_MklNoNorm")
    monkeypatch.setattr(onednn, "ONEDNN_PRODUCT", "_MklNoProduct")
    assert not onednn.has_layer_norm.__wrapped__(tf.float32) and not onednn.has_prepacked_matmul.__wrapped__()
    monkeypatch.setattr(onednn, "fused_layer_norm", lambda rows, gamma, beta, epsilon: rows)
    assert not onednn.has_layer_norm.__wrapped__(tf.float32)


def test_the_module_may_be_loaded_again():
    importlib.reload(onednn)
