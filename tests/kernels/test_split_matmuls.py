"""Attention and MLPs by smaller matmuls against the reference."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, randomise

import keras_vit
from keras_vit.export.rollout import attention_layers
from keras_vit.kernels import split_matmuls
from keras_vit.kernels.split_matmuls import mlp_parts, split_overrides
from keras_vit.layers import MLPBlock, MultiHeadSelfAttention, capture_attention
from keras_vit.layers.override import override_of, overriding

ROW = keras_vit.Variant("wide", width=64, depth=2, mlp_dim=256, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")


def in_four_parts(monkeypatch):
    """Have the MLP of `ROW` come so."""
    monkeypatch.setattr(split_matmuls, "MAX_VALUES", 64 * 64)
    monkeypatch.setattr(split_matmuls, "MIN_WIDTH", 64)


def products_of(call):
    """How many products the graph of a `tf.function` of images has, or of what `compiled` gives."""
    graph = getattr(call, "function", call).get_concrete_function(tf.TensorSpec((None, *IMAGES.shape[1:]))).graph
    types = [operation.type for operation in graph.get_operations()]
    return types.count("MatMul") + types.count("BatchMatMulV2")


def forms_of(model):
    """What attention and the MLPs of a model are to compute by."""
    kinds = MultiHeadSelfAttention, MLPBlock
    return [override_of(layer, "forward") for layer in model._flatten_layers() if isinstance(layer, kinds)]


def answer_and_products(model):
    call = tf.function(lambda images: model(images, training=False))
    return call(IMAGES), products_of(call)


@pytest.mark.parametrize("options", [{}, {"pooling": "gap"}, {"pooling": "map"}, {"activation": "gelu"}])
def test_split_matmuls_give_what_the_plain_ones_do(options, monkeypatch):
    in_four_parts(monkeypatch)
    model = randomise(keras_vit.build(ROW, classes=5, **options))
    expected, few = answer_and_products(model)
    with overriding(split_overrides(model)):
        answer, many = answer_and_products(model)
    assert max_difference(answer, expected) < 1e-5
    # Three more in each MLP, and two in attention unless the block is read at its class token alone.
    mlps = 2 + (options.get("pooling") == "map")
    assert many - few == 2 * (2 if "pooling" in options else 1) + 2 * 3 * mlps
    again, products = answer_and_products(model)
    assert products == few and max_difference(again, expected) == 0


@pytest.mark.parametrize(("changes", "more"), [({"mlp_kernel_size": 3}, 2), ({"positions": "relative"}, 2 * 3)])
def test_what_has_no_such_form_keeps_the_plain_one(changes, more, monkeypatch):
    in_four_parts(monkeypatch)
    model = randomise(keras_vit.build(replace(ROW, **changes), classes=5, pooling="gap"))
    expected, few = answer_and_products(model)
    with overriding(split_overrides(model)):
        answer, many = answer_and_products(model)
    assert max_difference(answer, expected) < 1e-5
    assert many - few == 2 * more


def test_an_error_inside_leaves_the_plain_forms():
    model = keras_vit.build(ROW, classes=5)
    with pytest.raises(RuntimeError), overriding(split_overrides(model)):
        raise RuntimeError
    assert forms_of(model) == [None] * 4


@pytest.mark.parametrize(
    ("width", "mlp_dim", "parts"), [(192, 768, 1), (384, 1536, 1), (768, 3072, 4), (1024, 4096, 8), (1280, 5120, 16)]
)
def test_kernels_of_parts_fit_into_a_cache(width, mlp_dim, parts):
    assert mlp_parts(width, mlp_dim) == parts
    assert width * mlp_dim / parts <= split_matmuls.MAX_VALUES and mlp_dim // parts % split_matmuls.TILE == 0


@pytest.mark.parametrize("mlp_dim", [4097, 64 * 47])
def test_an_mlp_of_no_fitting_parts_stays_whole(mlp_dim):
    assert mlp_parts(768, mlp_dim) == 1


def test_one_form_inside_another_leaves_the_outer_one():
    model = keras_vit.build(ROW, classes=5)
    with overriding(split_overrides(model)):
        outer = forms_of(model)
        with overriding(split_overrides(model)):
            assert None not in outer + forms_of(model) and forms_of(model) != outer
        assert outer == forms_of(model)


def test_a_free_image_size_has_the_form_too():
    model = randomise(keras_vit.build(ROW, input_shape=(None, None, 3), classes=5))
    expected = model(IMAGES)
    with overriding(split_overrides(model)):
        assert max_difference(model(IMAGES), expected) < 1e-5


def test_frozen_weights_have_this_form():
    model = randomise(keras_vit.build(ROW, classes=5))
    expected, few = answer_and_products(model)
    with overriding(split_overrides(model)):
        _, many = answer_and_products(model)
    call = keras_vit.compiled(model, frozen=True)
    assert products_of(call) == many > few
    assert max_difference(call(IMAGES), expected) < 1e-5
    assert products_of(keras_vit.compiled(model)) == few


def test_each_product_with_weights_has_a_bias(monkeypatch):
    in_four_parts(monkeypatch)
    model = randomise(keras_vit.build(ROW, classes=5, pooling="gap"))
    call = keras_vit.compiled(model, frozen=True)
    operations = call.function.get_concrete_function(tf.TensorSpec((None, *IMAGES.shape[1:]))).graph.get_operations()
    products = [operation.outputs[0] for operation in operations if operation.type == "MatMul"]
    assert len(products) == 1 + 2 * (4 + 8) + 1  # the embedding, two blocks, the classifier
    assert all({consumer.type for consumer in product.consumers()} == {"BiasAdd"} for product in products)


def test_watched_attention_is_watched_in_it_and_training_keeps_the_plain_form():
    model = randomise(keras_vit.build(ROW, classes=5, pooling="gap", dropout_rate=0.5))
    layers = attention_layers(model)
    with capture_attention(layers, lambda i, weights: 0 * weights):
        expected = model(IMAGES)
        with overriding(split_overrides(model)):
            assert max_difference(model(IMAGES), expected) < 1e-5
    assert max_difference(model(IMAGES), expected) > 1e-3
    with overriding(split_overrides(model)):
        assert max_difference(model(IMAGES, training=True), model(IMAGES)) > 1e-3, "nothing was dropped"
