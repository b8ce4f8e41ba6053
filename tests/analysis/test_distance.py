import keras
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from support import GOLDENS, golden_model, randomise

import keras_vit
from keras_vit import analysis
from keras_vit.layers.capture import is_captured

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=2)


def attention_of(weights, grid, prefix=0, patch_size=(4, 4)):
    """Return an `Attention` with the same weights (N, N) in 2 blocks, 3 images and 2 heads."""
    weights = np.broadcast_to(np.asarray(weights, "float32"), (2, 3, 2, *np.shape(weights)))
    layout = keras_vit.TokenLayout(("class",) * prefix, grid)
    return analysis.Attention(weights, None, layout, "token" if prefix else "gap", patch_size)


def centres(grid, patch):
    """Return the centres of the patches in pixels."""
    return np.array([[(i + 0.5) * patch[0], (j + 0.5) * patch[1]] for i in range(grid[0]) for j in range(grid[1])])


def test_the_distance_of_attention_to_the_same_patch_is_zero():
    np.testing.assert_array_equal(analysis.mean_distance(attention_of(np.eye(6), (2, 3))), np.zeros((2, 2)))


def test_the_distance_of_attention_to_the_patch_below_is_the_height_of_a_patch():
    weights = np.roll(np.eye(6), 3, axis=1)  # (2, 3): every patch attends to the other row
    np.testing.assert_allclose(analysis.mean_distance(attention_of(weights, (2, 3), patch_size=(5, 7))), 5)


@pytest.mark.parametrize(("grid", "patch"), [((2, 2), (4, 4)), ((3, 5), (8, 2))])
@pytest.mark.parametrize("prefix", [0, 1])
def test_the_distance_of_uniform_attention_is_the_mean_distance_of_two_patches(grid, patch, prefix):
    tokens = grid[0] * grid[1] + prefix
    places = centres(grid, patch)
    found = analysis.mean_distance(attention_of(np.full((tokens, tokens), 1 / tokens), grid, prefix, patch))
    np.testing.assert_allclose(found, cdist(places, places).mean(), rtol=1e-6)
    if grid == (2, 2):  # by hand: 0, one side twice, one diagonal
        np.testing.assert_allclose(found, 4 * (2 + np.sqrt(2)) / 4, rtol=1e-6)


def test_the_class_token_is_left_out_and_rows_are_normalised_again():
    weights = np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0.0], [0.9, 0.05, 0.05]])  # class token, two patches side by side
    np.testing.assert_allclose(analysis.mean_distance(attention_of(weights, (1, 2), 1)), (0 + 4 * 0.5) / 2, rtol=1e-6)


def test_a_query_that_attends_to_no_patch_is_left_out_of_the_mean():
    weights = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(analysis.mean_distance(attention_of(weights, (1, 2), 1)), 4, rtol=1e-6)
    assert not analysis.mean_distance(attention_of(np.eye(3)[[0, 0, 0]], (1, 2), 1)).any()


def test_distance_of_a_trained_models_attention_equals_loops_in_numpy():
    """Compare with loops in float64 for golden g1, the weights of the official code."""
    model, images = golden_model("g1"), np.load(GOLDENS / "g1.io.npz")["images"]
    attention = analysis.capture(model, images)
    places = centres(attention.grid, attention.patch_size)
    expected = np.zeros(attention.weights.shape[:3])
    for at in np.ndindex(*expected.shape):
        rows = attention.weights[at][1:, 1:].astype("float64")  # without the class token
        for q in range(len(places)):
            shares = rows[q]
            apart = np.hypot(*(places - places[q]).T)
            expected[at] += np.average(apart, weights=shares) / len(places)
    np.testing.assert_allclose(analysis.attention_distance(model, images, batch_size=1), expected.mean(1), rtol=1e-5)


def test_batches_do_not_change_the_mean_and_no_images_are_refused():
    model = randomise(keras_vit.build(TINY, input_shape=(4, 6, 1), classes=3))
    images = np.random.default_rng(0).uniform(-1, 1, (5, 4, 6, 1)).astype("float32")
    whole = analysis.attention_distance(model, images)
    np.testing.assert_allclose(analysis.attention_distance(model, images, batch_size=2), whole, rtol=1e-5)
    with pytest.raises(ValueError, match="images expected shape"):
        analysis.attention_distance(model, images[:0])


def test_the_error_for_a_bit_lists_its_feature_maps():
    row = keras_vit.BiTVariant("tiny_bit", units=(1, 1), width_factor=0.5)
    model = keras_vit.build(row, input_shape=(32, 32, 3), classes=3)
    sentence = "received 'tiny_bit', which has no attention but the feature maps stage1, stage2"
    with pytest.raises(ValueError, match=sentence):
        analysis.attention_distance(model, np.zeros((1, 32, 32, 3)))


def test_layers_are_not_captured_afterwards():
    model = randomise(keras_vit.build(TINY, input_shape=(4, 6, 1), classes=3, pooling="map"))
    analysis.capture(model, np.zeros((1, 4, 6, 1), "float32"))
    block = model.get_layer("encoder_block_01")
    assert not (is_captured(block.attention) or is_captured(model.get_layer("pooling")))
    assert keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(block)).num_heads == 2
