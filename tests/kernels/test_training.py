"""GELU, attention, norms and biases for training on CPUs against the reference."""

import dataclasses
import math
from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from kernels.implementations import ACTIVATIONS, NORMS
from kernels.saved_activations import saved_activations
from support import first_quick, max_difference, need_rounded_bfloat16, randomise, trained_on_cpu

import keras_vit
from keras_vit.kernels import dispatch, token_sums
from keras_vit.kernels import training as fused
from keras_vit.kernels import training_attention as attended
from keras_vit.kernels.activations import GELU, GELU_TANH, QUICK_GELU
from keras_vit.kernels.norms import layer_norm
from keras_vit.layers import encoder
from keras_vit.layers.override import override_of, overriding
from keras_vit.train.stages import Forward, Span

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)


@pytest.mark.parametrize(("epsilon_on", "times"), [("variance", 1), ("std", 0)])
def test_kernels_are_standardised_by_batch_normalisation_where_a_model_trains(epsilon_on, times):
    layer = keras_vit.layers.StdConv(8, 3, epsilon=0.1, epsilon_on=epsilon_on)
    model = keras.Sequential([keras.Input((6, 6, 4)), layer])
    x = np.random.default_rng(0).uniform(-1, 1, (2, 6, 6, 4)).astype("float32")
    with trained_on_cpu(model):
        assert max_difference(model(x, training=True), model(x, training=False)) < 1e-5
        for training, calls in ((True, times), (False, 0)):
            graph = tf.function(lambda x, training=training: model(x, training=training)).get_concrete_function(x).graph
            assert [operation.type for operation in graph.get_operations()].count("FusedBatchNormV3") == calls


@pytest.mark.parametrize(("size", "strides", "products"), [(1, 1, 1), (1, 2, 0), (3, 1, 0)])
def test_a_convolution_of_one_pixel_without_strides_is_a_product_where_a_model_trains(size, strides, products):
    layer = keras_vit.layers.StdConv(8, size, strides, "symmetric")
    model = keras.Sequential([keras.Input((6, 5, 4)), layer])
    x = tf.random.stateless_normal((2, 6, 5, 4), (0, 1))

    def value_and_gradients(x, training):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x, training=training)
        return y, *tape.gradient(y, [x, layer.kernel.value], tf.random.stateless_normal(y.shape, (1, 2)))

    before = value_and_gradients(x, True)
    with trained_on_cpu(model):
        for new, old in zip(value_and_gradients(x, True), before, strict=True):
            assert max_difference(new, old) < 1e-6 * np.abs(old).max()  # a gradient's values reach 50
        for training, many in ((True, products), (False, 0)):
            graph = tf.function(value_and_gradients).get_concrete_function(x, training).graph
            types = [operation.type for operation in graph.get_operations()]
            assert (types.count("MatMul"), sum("Conv2D" in name for name in types)) == (3 * many, 3 * (1 - many))


@pytest.mark.parametrize("dtype", first_quick(["float32", "bfloat16"]))
@pytest.mark.parametrize(("form", "plain", "shape"), NORMS)
def test_a_norm_saves_only_its_input_for_the_backward_pass(form, plain, shape, dtype):
    x = tf.cast(tf.random.stateless_normal(shape, (0, 0)), dtype)
    inputs, least = [x, tf.fill((64,), 0.5), tf.ones((64,))], math.prod(shape)
    found = saved_activations(lambda *inputs: form(*inputs, 1e-6), inputs, least)
    assert [name for name, _ in found] == [dtype]
    of_plain = [name for name, _ in saved_activations(lambda *inputs: plain(*inputs, 1e-6), inputs, least)]
    assert of_plain.count("float32") >= (2 if plain is encoder.layer_norm else 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("form", "plain"), ACTIVATIONS)
def test_an_activated_matmul_saves_only_its_inputs_except_for_few_tokens(form, plain, dtype, monkeypatch):
    inputs = [tf.cast(tf.random.stateless_normal(shape, (1, 2)), dtype) for shape in ((33, 24), (24,), (24, 8))]
    monkeypatch.setattr(token_sums, "SAVE_BELOW", 34)
    of_few = 1 if dtype == "bfloat16" else 0  # value and slope instead of x
    assert saved_activations(form.matmul, inputs, 192) == [(dtype, (24, 8)), *[(dtype, (33, 24))] * (1 + of_few)]
    monkeypatch.setattr(token_sums, "SAVE_BELOW", 33)
    assert saved_activations(form.matmul, inputs, 192) == [(dtype, (24, 8)), (dtype, (33, 24))]
    assert saved_activations(partial(form.matmul, recompute=False), inputs, 192) == [
        (dtype, (24, 8)),
        *[(dtype, (33, 24))] * 2,
    ]
    assert len(saved_activations(lambda x, bias, kernel: plain(x + bias) @ kernel, inputs, 192)) > 2


@pytest.mark.parametrize(("dtype", "few"), [("float32", False), ("bfloat16", False), ("bfloat16", True)])
@pytest.mark.parametrize(("form", "plain"), ACTIVATIONS)
def test_an_activated_matmul_has_the_reference_value_and_gradients(form, plain, dtype, few, monkeypatch):
    if dtype == "bfloat16":
        need_rounded_bfloat16()
    monkeypatch.setattr(token_sums, "SAVE_BELOW", 34 if few else 33)
    inputs = [tf.cast(tf.random.stateless_normal(shape, (1, 2)), dtype) for shape in ((33, 24), (24,), (24, 8))]

    def all_of(product):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = product(*inputs)
        return y, *tape.gradient(y, inputs, tf.cast(tf.random.stateless_normal(y.shape, (3, 4)), dtype))

    plainly = lambda x, bias, kernel: plain(x + bias) @ kernel  # noqa: E731
    for new, old in zip(all_of(form.matmul), all_of(plainly), strict=True):
        new, old = (tf.cast(a, tf.float32) for a in (new, old))
        bound = (2**-6 if dtype == "bfloat16" else 1e-5) * float(tf.reduce_max(tf.abs(old)))
        np.testing.assert_allclose(new, old, rtol=0, atol=bound)


def test_a_unit_has_fused_group_norms_while_it_trains():
    unit = keras_vit.layers.ResidualUnit(64)
    model = randomise(keras.Sequential([keras.Input((6, 6, 256)), unit]))
    x = np.random.default_rng(0).uniform(-1, 1, (2, 6, 6, 256)).astype("float32")
    with trained_on_cpu(model):
        assert max_difference(model(x, training=True), model(x, training=False)) < 1e-5
        for training, calls in ((True, 3 * 3), (False, 0)):
            graph = tf.function(lambda x, training=training: model(x, training=training)).get_concrete_function(x).graph
            assert [operation.type for operation in graph.get_operations()].count("PartitionedCall") == calls


@pytest.mark.parametrize(("wide", "many"), first_quick([(True, True), (True, False), (False, False)]))
@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu", "quick_gelu", "relu"])
def test_a_model_with_overrides_trains_as_before_and_predicts_by_the_reference(activation, wide, many, monkeypatch):
    monkeypatch.setattr(dispatch, "WIDE", 16 if wide else 17)
    monkeypatch.setattr(attended, "MANY_TOKENS", 5 if many else 6)
    model = randomise(keras_vit.build(ROW, classes=5, activation=activation))
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True)[:, 0])
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    before, predicted = gradients(), model(x, training=False)
    with trained_on_cpu(model):
        for new, old in zip(gradients(), before, strict=True):
            assert max_difference(new, old) < 1e-5
        assert max_difference(model(x, training=False), predicted) == 0
        forwards = [override_of(block.mlp, "forward", training=True) for block in _blocks(model)]
        again = [forward and forward.args[1].keywords for forward in forwards]
        assert again == [None if activation == "relu" else {"recompute": wide}] * 2
        assert all(override_of(block.attention, "forward", training=True) for block in _blocks(model))
        activations = {override_of(block.mlp, "activation", training=True) for block in _blocks(model)}
        norms = [layer for layer in model._flatten_layers() if isinstance(layer, encoder.LayerNorm)]
        assert len(norms) == 5 and {override_of(norm, "norm", training=True) for norm in norms} == {layer_norm}
    assert activations == {{"gelu_tanh": GELU_TANH, "gelu": GELU, "quick_gelu": QUICK_GELU}.get(activation)}
    assert max_difference(gradients()[0], before[0]) == 0 and override_of(norms[0], "norm", training=True) is None


OPTIONS = {
    "rope": {"rope": keras_vit.Rope(coordinates="centers", pairs="halves"), "qkv_bias": "qv", "registers": 2},
    "neighbours": {"rope": keras_vit.Rope(order="xy"), "qkv_bias": "none", "qk_norm": True},
    "learned": {"rope": keras_vit.Rope(10.0, learned=True)},
    "bias": {"relative_bias": "table", "qkv_bias": "qv"},
    "inner norm": {"attention_inner_norm": True},
    "difference": {"differential_attention": True},
}


@pytest.mark.parametrize(
    ("name", "forward", "rotate"),
    [
        ("rope", True, True),
        ("neighbours", True, True),
        ("learned", True, False),
        ("bias", False, False),
        ("inner norm", False, False),
        ("difference", False, False),
    ],
)
def test_attention_with_options_trains_as_before(name, forward, rotate):
    row = dataclasses.replace(ROW, depth=1, positions="none", **OPTIONS[name])
    model = randomise(keras_vit.build(row, classes=5, pooling="gap"))
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True)[:, 0])
        variables = [variable.value for variable in model.trainable_variables]
        return tape.gradient(loss, variables, unconnected_gradients="zero")

    before, predicted = gradients(), model(x)
    with trained_on_cpu(model):
        (attention,) = [block.attention for block in _blocks(model)]
        assert bool(override_of(attention, "forward", training=True)) is forward
        assert bool(override_of(attention, "rotate", training=True)) is rotate
        for new, old in zip(gradients(), before, strict=True):
            assert max_difference(new, old) < 1e-5
        assert max_difference(model(x), predicted) == 0
    with overriding(dispatch.compiled_overrides(model, frozen=False)):
        assert bool(override_of(attention, "rotate")) is rotate
        assert max_difference(model(x), predicted) < 1e-5


def _blocks(model):
    return [layer for layer in model._flatten_layers() if isinstance(layer, encoder.EncoderBlock)]


@pytest.mark.parametrize("options", first_quick([{"dropout_rate": 0.1}, {"attention_dropout_rate": 0.1}]))
def test_what_draws_is_not_computed_again(options, monkeypatch):
    """A second draw would be another one."""
    monkeypatch.setattr(dispatch, "WIDE", 0)
    model = randomise(keras_vit.build(ROW, classes=5, **options))
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")
    draws = lambda graph: [operation.type for operation in graph.get_operations()].count("StatelessRandomUniformV2")  # noqa: E731

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True)[:, 0])
        before.append(draws(tf.compat.v1.get_default_graph()))
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    before = []
    with trained_on_cpu(model):
        assert draws(gradients.get_concrete_function(x).graph) == before[0] > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_bias_has_the_gradient_of_a_sum(dtype):
    if dtype == "bfloat16":
        need_rounded_bfloat16()
    x, bias, gradient = (
        tf.cast(tf.random.stateless_normal(shape, (1, 2)), dtype) for shape in ((33, 8), (8,), (33, 8))
    )
    with tf.GradientTape() as tape:
        tape.watch([x, bias])
        y = fused.add_bias(x, bias)
    by_x, by_bias = tape.gradient(y, [x, bias], gradient)
    assert max_difference(y, x + bias) == 0 and max_difference(by_x, gradient) == 0
    expected = tf.reduce_sum(tf.cast(gradient, tf.float64), axis=0)
    np.testing.assert_allclose(tf.cast(by_bias, tf.float64), expected, rtol=2**-8 if dtype == "bfloat16" else 1e-5)


@pytest.mark.broad
@pytest.mark.parametrize("few", first_quick([False, True]))
def test_a_wide_model_in_mixed_precision_trains_as_near_to_float32_as_by_the_plain_forms(few, monkeypatch):
    need_rounded_bfloat16()
    monkeypatch.setattr(dispatch, "WIDE", 16)
    monkeypatch.setattr(token_sums, "SAVE_BELOW", 16 if few else 15)  # 3 images of 5 tokens
    images = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")

    def gradients(policy, within):
        model = randomise(keras_vit.build(ROW, classes=5, classifier_activation=None, dtype=policy))
        values = [variable.value for variable in model.trainable_variables]
        with within(model), tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(model(images, training=True), "float32")[:, 0])
            slopes = tape.gradient(loss, values)
        return np.concatenate([np.ravel(gradient) for gradient in slopes])

    exact = gradients("float32", nullcontext)
    ours, plain = (gradients("mixed_bfloat16", within) for within in (trained_on_cpu, nullcontext))
    assert np.linalg.norm(ours - exact) < 1.2 * np.linalg.norm(plain - exact) < 0.1 * np.linalg.norm(exact)


# the patch size of the row, and that of another stage
@pytest.mark.broad
@pytest.mark.parametrize("patch_size", [(4, 4), pytest.param((8, 8), marks=pytest.mark.broad)])
def test_in_bfloat16_the_biases_have_the_gradients_of_float32(patch_size):
    """TensorFlow's sums over thousands of rows are not: they add up in bfloat16."""
    row = dataclasses.replace(ROW, image_size=64, mlp_kernel_size=3)
    images = np.random.default_rng(0).uniform(-1, 1, (64, 64, 64, 3)).astype("float32")
    towards = np.random.default_rng(1).normal(size=(64, 5)).astype("float32")

    def gradients(policy):
        model = randomise(keras_vit.build(row, classes=5, pooling="gap", classifier_activation=None, dtype=policy))
        variables = model.trainable_variables
        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        forward = Forward(model, variables, Span(0, 1, (64, 64, 3), patch_size))
        with trained_on_cpu(model, *forward.own_layers), tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(tf.cast(forward(values, [], images), "float32") * towards)
        found = zip(variables, tape.gradient(loss, values), strict=True)
        return {variable.path: np.asarray(gradient) for variable, gradient in found if variable.name == "bias"}

    rounded, exact = gradients("mixed_bfloat16"), gradients("float32")
    errors = {path: np.linalg.norm(rounded[path] - exact[path]) / np.linalg.norm(exact[path]) for path in exact}
    assert max(errors.values()) < 2**-6, errors
    assert {path.split("/")[-2] for path in errors} == {"embedding", "qkv", "out", "fc1", "fc2", "local", "head"}


@pytest.mark.parametrize("training", [False, True])
def test_no_bias_is_summed_where_a_model_trains(training):
    model = keras_vit.build(ROW, classes=5)

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=training)[:, 0])
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    with trained_on_cpu(model):
        operations = gradients.get_concrete_function(tf.TensorSpec((2, 8, 8, 3))).graph.get_operations()
    sums = [operation.name for operation in operations if operation.type == "BiasAddGrad"]
    # patches; four a block, but in the last one no product of query, key and value in one
    assert sum("head" not in name for name in sums) == (0 if training else 1 + 4 + 3)
