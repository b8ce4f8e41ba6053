"""The forms of GELU, norms and biases that training on CPUs uses, beside the plain ones."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, need_rounded_bfloat16, randomise
from tensorflow.python.eager import context

import keras_vit
from keras_vit.layers import encoder, mlp, resnet
from keras_vit.train import fused
from keras_vit.train.stages import Forward, Span

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
FORMS = [(fused.gelu_tanh, mlp.gelu_tanh), (fused.gelu, mlp.gelu)]
NORMS = [
    pytest.param(fused.layer_norm, encoder.layer_norm, (3, 7, 64), id="layer"),
    pytest.param(fused.group_norm, resnet.group_norm, (3, 4, 5, 64), id="group"),
]


def value_and_slope(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x, 2.0 * tf.ones_like(y)) / 2.0


@pytest.mark.parametrize(("form", "plain"), FORMS)
def test_value_and_gradient_are_the_plain_ones(form, plain):
    x = tf.linspace(-12.0, 12.0, 4001)
    for fast, slow in zip(value_and_slope(form, x), value_and_slope(plain, x), strict=True):
        assert max_difference(fast, slow) < 1e-5


@pytest.mark.parametrize(("form", "plain"), FORMS)
def test_half_precision_rounds_once(form, plain):
    x = tf.linspace(-6.0, 6.0, 4001)
    exact = value_and_slope(plain, tf.cast(tf.cast(x, tf.bfloat16), tf.float32))
    for fast, slow in zip(value_and_slope(form, tf.cast(x, tf.bfloat16)), exact, strict=True):
        assert fast.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(fast, tf.float32), slow, rtol=2**-8, atol=2**-9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("form", "plain", "shape"), NORMS)
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


def _as_run(function, *inputs):
    """The nodes of a compiled function's graph after TensorFlow's optimiser, which merges what is computed twice."""
    context.enable_run_metadata()
    try:
        function(*inputs)
        graphs = [found.post_optimization_graph for found in context.export_run_metadata().function_graphs]
    finally:
        context.disable_run_metadata()
    return max(graphs, key=lambda graph: len(graph.node)).node


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("form", "plain", "shape"), NORMS)
def test_a_norm_keeps_as_much_as_its_input_for_the_backward_pass(form, plain, shape, dtype):
    def kept(form):
        """Types of the tensors of the input's size that the backward pass takes of the forward one."""
        before = []

        @tf.function
        def both(x, gamma, beta, gradient):
            with tf.GradientTape() as tape:
                tape.watch([x, gamma, beta])
                y = form(x, gamma, beta, 1e-6)
            before.extend(tf.compat.v1.get_default_graph().get_operations())
            return y, tape.gradient(y, [x, gamma, beta], tf.cast(gradient, y.dtype))

        x = tf.random.stateless_normal(shape, (0, 0))
        inputs = tf.cast(x, dtype), tf.fill((64,), 0.5), tf.ones((64,)), x
        nodes = _as_run(both, *inputs)
        later = both.get_concrete_function(*inputs).graph.get_operations()[len(before) :]
        outputs = {op.name: op.outputs[0] for op in before if op.outputs}
        wide = {name: a.dtype.name for name, a in outputs.items() if a.shape.num_elements() == x.shape.num_elements()}
        taken = {name for node in nodes if node.name in {op.name for op in later} for name in node.input}
        return [wide[name] for name in taken & wide.keys() - {"gradient"}]

    assert kept(form) == [dtype]
    assert kept(plain).count("float32") >= (2 if plain is encoder.layer_norm else 1)


def test_a_unit_has_fused_group_norms_while_it_trains():
    unit = keras_vit.layers.ResidualUnit(64)
    model = fused.fuse(randomise(keras.Sequential([keras.Input((6, 6, 256)), unit])))
    x = np.random.default_rng(0).uniform(-1, 1, (2, 6, 6, 256)).astype("float32")
    assert max_difference(model(x, training=True), model(x, training=False)) < 1e-5
    for training, calls in ((True, 3 * 3), (False, 0)):
        graph = tf.function(lambda x, training=training: model(x, training=training)).get_concrete_function(x).graph
        assert [operation.type for operation in graph.get_operations()].count("PartitionedCall") == calls


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu", "relu"])
def test_a_fused_model_trains_as_before_and_predicts_by_the_plain_form(activation, monkeypatch):
    model = randomise(keras_vit.build(ROW, classes=5, activation=activation))
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True)[:, 0])
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    before, predicted = gradients(), model(x, training=False)
    assert fused.fuse(model) is model
    for new, old in zip(gradients(), before, strict=True):
        assert max_difference(new, old) < 1e-5
    assert max_difference(model(x, training=False), predicted) == 0
    calls = {layer.activate_in_training for layer in model._flatten_layers() if hasattr(layer, "activate_in_training")}
    norms = [layer for layer in model._flatten_layers() if isinstance(layer, encoder.LayerNorm)]
    assert len(norms) == 5 and all(norm.norm_in_training is fused.layer_norm for norm in norms)
    assert calls == {{"gelu_tanh": fused.gelu_tanh, "gelu": fused.gelu}.get(activation, keras.activations.relu)}


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


@pytest.mark.parametrize("patch_size", [(4, 4), (8, 8)])  # the row's own, and another stage's
def test_in_bfloat16_the_biases_have_the_gradients_of_float32(patch_size):
    """TensorFlow's sums over thousands of rows are not: they add up in bfloat16."""
    row = dataclasses.replace(ROW, image_size=64, mlp_kernel_size=3)
    images = np.random.default_rng(0).uniform(-1, 1, (64, 64, 64, 3)).astype("float32")
    towards = np.random.default_rng(1).normal(size=(64, 5)).astype("float32")

    def gradients(policy):
        model = randomise(keras_vit.build(row, classes=5, pooling="gap", classifier_activation=None, dtype=policy))
        variables = fused.fuse(model).trainable_variables
        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        forward = Forward(model, variables, Span(0, 1, (64, 64, 3), patch_size))
        with tf.GradientTape() as tape:
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
    model = fused.fuse(keras_vit.build(ROW, classes=5))

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=training)[:, 0])
        return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    operations = gradients.get_concrete_function(tf.TensorSpec((2, 8, 8, 3))).graph.get_operations()
    sums = [operation.name for operation in operations if operation.type == "BiasAddGrad"]
    assert sum("head" not in name for name in sums) == (0 if training else 1 + 2 * 4)


def test_the_gradient_is_one_product():
    graph = tf.function(lambda x: value_and_slope(fused.gelu_tanh, x)[1])
    operations = [o.type for o in graph.get_concrete_function(tf.TensorSpec((4, 8))).graph.get_operations()]
    assert (
        "Tanh" not in operations
        and operations.count("PartitionedCall") + operations.count("StatefulPartitionedCall") == 1
    )
