"""The token layout is known in one place: every tool follows it when other tokens stand in front of the patches."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from support import randomise

import keras_vit
from keras_vit import analysis, layers
from keras_vit.export.rollout import attention_layers, rollout

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
CLASS = ("class",)


@pytest.fixture
def registers():
    """A row whose models have three registers behind the class token."""
    return replace(ROW, registers=3)


@pytest.mark.parametrize(
    "options, shape, prefix, grid",
    [
        ({}, (8, 12, 3), CLASS, (2, 3)),
        ({"pooling": "gap"}, (8, 8, 3), (), (2, 2)),
        ({"pooling": "gap", "class_token": True}, (8, 8, 3), CLASS, (2, 2)),
        ({}, (None, None, 3), CLASS, None),
        ({}, (None, 8, 3), CLASS, (None, 2)),
    ],
)
def test_layout_of_a_model(options, shape, prefix, grid):
    model = keras_vit.build(ROW, input_shape=shape, classes=2, **options)
    layout = keras_vit.token_layout(model)
    assert layout == keras_vit.TokenLayout(prefix, grid)
    assert layout.prefix_tokens == len(prefix) and layout.class_token == (0 if prefix else None)
    assert layout.patches == slice(len(prefix), None)
    assert keras_vit.token_layout(model, "tokens").prefix == ()
    assert keras_vit.token_layout(keras.Sequential([keras.Input((*shape,)), model])) == layout


def test_a_model_without_patches_or_without_the_layer_is_refused():
    bit = keras_vit.build(keras_vit.BiTVariant("bit", (1,), 0.5), input_shape=(32, 32, 3), classes=2)
    with pytest.raises(ValueError, match="model expected a ViT with patch tokens, received 'bit'"):
        keras_vit.token_layout(bit)
    with pytest.raises(ValueError, match="layer expected one of tiny's layers .*, received 'nowhere'"):
        keras_vit.token_layout(keras_vit.build(ROW, classes=2), "nowhere")


def test_every_tool_knows_registers(registers):
    model = randomise(keras_vit.build(registers, input_shape=(8, 12, 3), classes=5))
    images = np.random.default_rng(0).uniform(-1, 1, (3, 8, 12, 3)).astype("float32")
    layout = keras_vit.token_layout(model)
    assert layout.prefix == ("class", "register_0", "register_1", "register_2")
    assert model.get_layer("position_embedding").embedding.shape == (1, 10, 16)

    sequence = keras.ops.convert_to_numpy(keras_vit.feature_model(model, ["encoder_norm"])(images))
    assert sequence.shape == (3, 10, 16)
    grid = keras_vit.feature_model(model, ["encoder_norm"], as_grid=True)(images)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(grid), sequence[:, 4:].reshape(3, 2, 3, 16))
    outputs = analysis.layer_outputs(model, images)
    np.testing.assert_allclose(outputs.maps[-1].reshape(3, 6, 16), sequence[:, 4:], atol=1e-6)

    weights = analysis.attention_maps(model, images)
    seen = weights[..., 0, 4:].reshape(2, 3, 2, 2, 3)
    np.testing.assert_array_equal(analysis.class_attention(model, images), seen)
    maps = analysis.rollout_maps(model, images)
    np.testing.assert_allclose(maps.reshape(3, 6), analysis.rollout(weights)[:, 0, 4:], atol=1e-6)
    with layers.capture_attention(attention_layers(model)) as captured:
        model(images)
    exported = keras.ops.convert_to_numpy(rollout(model, captured, (2, 3)))
    np.testing.assert_allclose(exported, maps, atol=1e-6)
    assert analysis.grad_cam(model, images, layer="encoder_block_00").shape == (3, 2, 3)
    assert analysis.gradient_attention(model, images).shape == (3, 2, 3)
    assert analysis.attention_distance(model, images).shape == (2, 2)


def test_a_mean_leaves_registers_out(registers):
    model = randomise(keras_vit.build(registers, classes=5, pooling="gap", include_top=False))
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    assert keras_vit.token_layout(model).prefix == ("register_0", "register_1", "register_2")
    sequence = keras.ops.convert_to_numpy(keras_vit.feature_model(model, ["encoder_norm"])(images))
    pooled = keras.ops.convert_to_numpy(model(images))
    np.testing.assert_allclose(pooled, sequence[:, 3:].mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("pooling", ["token", "gap"])
def test_masked_prediction_leaves_registers_out(registers, pooling):
    from keras_vit.models.masked import build_masked

    model = randomise(build_masked(registers, 5, "mean_colour", input_shape=(8, 8, 3), pooling=pooling))
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    places = np.array([[0, 3], [1, 2]], "int32")
    out = model.get_layer("patch_prediction")
    inner = keras.Model(model.inputs, [out.input[0], model.output])
    sequence, predicted = inner([images, np.tile(np.arange(1, 5, dtype="int32"), (2, 1)), places])
    prefix = keras_vit.token_layout(model).prefix_tokens
    assert prefix == (4 if pooling == "token" else 3)
    chosen = np.take_along_axis(keras.ops.convert_to_numpy(sequence)[:, prefix:], places[..., None], axis=1)
    expected = keras.ops.convert_to_numpy(out.dense(chosen))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(predicted), expected, atol=1e-5)


def test_masked_prediction_trains_the_encoder_that_it_returns():
    """The row's activation and epsilon, too."""
    from keras_vit.models.masked import build_masked, encoder_of

    row = replace(ROW, activation="quick_gelu", layer_norm_epsilon=1e-3, pre_norm=True, layer_scale=0.5)
    masked = randomise(build_masked(row, 5, "mean_colour", input_shape=(8, 8, 3), pooling="token"))
    encoder = encoder_of(masked, row, pooling="token")
    for name in ("pre_norm", "encoder_block_00", "encoder_norm"):
        configs = [model.get_layer(name).get_config() for model in (masked, encoder)]
        assert configs[0] == configs[1], name
