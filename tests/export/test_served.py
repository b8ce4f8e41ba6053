"""The overrides of a SavedModel's layers for oneDNN equal the reference layers."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_onednn, needs_tensorflow, quick_first, randomise

import keras_vit
from keras_vit import analysis
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import load_signatures, write_saved_model
from keras_vit.export.serving_module import ServingModule
from keras_vit.kernels import split_matmuls
from keras_vit.kernels.saved_model import norm_overrides
from keras_vit.layers import LayerNorm
from keras_vit.layers.encoder import layer_norm

pytestmark = needs_tensorflow
ROW = keras_vit.Variant("row", width=64, depth=3, mlp_dim=256, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((3, 16, 16, 3)).astype("float32")


def norm(epsilon=1e-6, **options):
    """Return a layer and its override."""
    layer = LayerNorm(epsilon, **options)
    layer.build((None, 7, 64))
    layer.gamma.assign(np.linspace(-1, 2, 64))
    layer.beta.assign(np.linspace(3, 0, 64))
    (row,) = norm_overrides(layer_model(layer))
    return layer, row.function


def layer_model(layer):
    return keras.Sequential([keras.Input((7, 64)), layer])


def traced(function, layer, dtype):
    """Return a graph with operations around the norm. TensorFlow does not optimise inputs and outputs."""
    call = lambda x: tf.tanh(function(tf.abs(x), layer.gamma.value, layer.beta.value, layer.epsilon) / 8)  # noqa: E731
    return tf.function(call, [tf.TensorSpec((None, 7, 64), dtype)], autograph=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-5, 0.5])
@pytest.mark.parametrize("deviation", [3e-3, 3.0])
def test_an_overridden_norm_equals_the_reference(epsilon, deviation, dtype):
    layer, override = norm(epsilon)
    x = tf.cast(tf.random.stateless_normal((5, 7, 64), (1, 2), 1.0, deviation), dtype)
    found, expected = (traced(f, layer, dtype)(x) for f in (override, layer_norm))
    assert found.dtype == tf.float32
    # Without oneDNN, the rounding error grows with the ratio of the mean to the deviation.
    rounding = 2e-5 if deviation > 1 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


@needs_onednn
def test_tensorflow_replaces_the_override_by_onednns_norm():
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.grappler import tf_optimizer
    from tensorflow.python.training import saver

    def operations(function):
        graph = traced(function, layer, "float32").get_concrete_function().graph
        meta = saver.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
        meta.collection_def["train_op"].node_list.value.extend(tensor.name for tensor in graph.outputs)
        config = config_pb2.ConfigProto()
        config.graph_options.rewrite_options.min_graph_nodes = -1
        return {node.op for node in tf_optimizer.OptimizeGraph(config, meta).node}

    layer, override = norm()
    gamma, beta = (tf.constant(weight) for weight in (layer.gamma, layer.beta))
    assert "_MklLayerNorm" in operations(override)
    assert "_MklLayerNorm" not in operations(lambda x, *_: layer_norm(x, gamma, beta, layer.epsilon))


def test_norms_without_an_epsilon_and_subclasses_have_no_override():
    class Subclass(LayerNorm):
        """A subclass may compute anything."""

    layer, _ = norm()
    layer.epsilon = 0.0
    assert not norm_overrides(layer_model(layer))
    assert not norm_overrides(layer_model(Subclass(1e-6)))


@pytest.mark.broad
@pytest.mark.parametrize("pooling", quick_first(["token", "gap", "map"], ["token"], broad=["map"]))
def test_in_bfloat16_attention_and_mlps_are_split(pooling, tmp_path, monkeypatch):
    monkeypatch.setattr(split_matmuls, "MAX_VALUES", 64 * 64)
    monkeypatch.setattr(split_matmuls, "MIN_WIDTH", 64)
    model = randomise(keras_vit.build(ROW, classes=5, pooling=pooling))
    half = in_dtype(model, "bfloat16")
    module = ServingModule(half, served=True)
    variables = module.variables_held_once + module.variables_in_parts
    shapes = [tuple(variable.shape) for variable in variables]
    of_token = pooling == "token"  # the attention of the last block is not split
    assert shapes.count((64, 192)) == of_token and shapes.count((64, 64)) >= 4 * (3 - of_token) + 8 * 3
    count = lambda weights: sum(np.prod(weight.shape) for weight in weights)  # noqa: E731
    assert count(half.weights) <= count(variables) < 1.02 * count(half.weights)
    write_saved_model(half, tmp_path)
    signatures = load_signatures(tmp_path)
    answer = signatures["serving_default"](images=tf.constant(IMAGES))["logits"]
    expected = np.log(np.asarray(model(IMAGES)))
    expected -= expected.mean(axis=-1, keepdims=True)
    answer -= tf.reduce_mean(answer, axis=-1, keepdims=True)
    assert max_difference(answer, expected) < 0.1 * expected.std()
    if pooling != "map":
        rollout = signatures["attention"](images=tf.constant(IMAGES))["rollout"]
        assert max_difference(rollout, analysis.rollout_maps(model, IMAGES)) < 0.05


@pytest.mark.broad
@pytest.mark.parametrize("changes", [{"mlp_kernel_size": 3}, {"positions": "relative"}, {"axial": True}])
def test_in_bfloat16_other_layers_are_not_split(changes, tmp_path):
    model = randomise(keras_vit.build(dataclasses.replace(ROW, **changes), classes=5, pooling="gap"))
    write_saved_model(in_dtype(model, "bfloat16"), tmp_path)
    answer = load_signatures(tmp_path)["serving_default"](images=tf.constant(IMAGES))["probabilities"]
    assert max_difference(answer, model(IMAGES)) < 0.1


def test_in_float32_and_for_other_formats_weights_are_not_split():
    model = randomise(keras_vit.build(ROW, classes=5))
    for module in (ServingModule(model, served=True), ServingModule(in_dtype(model, "bfloat16"))):
        shapes = [tuple(variable.shape) for variable in module.variables_held_once]
        assert shapes.count((64, 192)) == 3 and not getattr(module, "variables_in_parts", [])
