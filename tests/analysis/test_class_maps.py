from dataclasses import replace

import keras
import numpy as np
import pytest
from support import randomise

import keras_vit
from keras_vit import analysis
from keras_vit.models.rows_from_weights import row_of

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4)
HYBRID = replace(TINY, width=16, patch_size=1, stem=keras_vit.ResNetStem((1,), 0.5))
BIT = keras_vit.BiTVariant("tiny_bit", units=(1,), width_factor=0.5)
RNG = np.random.default_rng(0)


def made(row=TINY, shape=(8, 12, 1), **options):
    return randomise(keras_vit.build(row, input_shape=shape, classes=3, classifier_activation=None, **options))


def pictures(shape=(8, 12, 1), count=3):
    return RNG.uniform(-1, 1, (count, *shape)).astype("float32")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor).astype("float64")


def test_grad_cam_of_a_bit_is_the_class_activation_map():
    """With mean pooling and a linear head, Grad-CAM is the map times the class's weights, divided by the cells."""
    model, images = made(BIT, (16, 24, 1)), pictures((16, 24, 1))
    found = array(keras_vit.feature_model(model, ["relu"])(images))
    kernel = array(model.get_layer("head").kernel)
    cells = found.shape[1] * found.shape[2]
    for classes, chosen in ((1, [1, 1, 1]), ([2, 0, 1], [2, 0, 1]), (None, array(model(images)).argmax(1))):
        expected = np.maximum(np.einsum("bhwf,fb->bhw", found, kernel[:, chosen]) / cells, 0)
        np.testing.assert_allclose(analysis.grad_cam(model, images, classes, batch_size=2), expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["token", "gap", "map"])
def test_grad_cam_equals_finite_differences(pooling):
    """Compare with finite differences of each feature of the last block's input."""
    model, images = made(pooling=pooling), pictures(count=1)
    block, prefix = model.get_layer("encoder_block_01"), int(pooling == "token")
    features = array(keras.Model(model.input, block.input)(images))
    rest = keras.Model(block.input, model.output)
    tokens, width = features.shape[1:]
    step = 1e-2 * np.eye(tokens * width).reshape(-1, tokens, width)
    up, down = (array(rest((features + sign * step).astype("float32")))[:, 2] for sign in (1, -1))
    slope = ((up - down) / 2e-2).reshape(tokens, width)[prefix:]
    expected = np.maximum(features[0, prefix:] @ slope.mean(axis=0), 0).reshape(2, 3)
    np.testing.assert_allclose(analysis.grad_cam(model, images, 2)[0], expected, atol=2e-3 * max(expected.max(), 1e-2))
    assert expected.max() > 0 or pooling == "map"


def test_grad_cam_does_not_change_a_hybrid(tmp_path):
    model = made(HYBRID, (16, 24, 3))
    row = row_of(model)
    analysis.grad_cam(model, pictures((16, 24, 3)))
    assert row_of(model) == row and row.positions_at == "stem"
    keras_vit.save_weights(model, tmp_path / "hybrid.npz")
    assert row_of(made(replace(TINY, positions_at="shared"))).positions_at == "shared"


def in_numpy(model, images, moved=None):
    """Return the logits in float64 and all attention weights.

    Args:
        moved: (block, head, query, key, difference) of one attention weight that is changed."""
    from analysis.test_attention import InNumpy

    class Moved(InNumpy):
        block_now = -1

        def attend(self, query, key):
            weights = super().attend(query, key)
            self.block_now += 1
            if moved is not None and moved[0] == self.block_now:
                weights[:, moved[1], moved[2], moved[3]] += moved[4]
            return weights

    reference = Moved(model, TINY.num_heads)
    x = reference.tokens(images.astype("float64"), 4)
    x = np.concatenate([np.broadcast_to(reference["class_token/token"], (len(x), 1, x.shape[-1])), x], 1)
    x = x + reference["position_embedding/embedding"]
    attentions = []
    for name in ("encoder_block_00", "encoder_block_01"):
        weights, x = reference.block(x, name)
        attentions.append(weights)
    return reference.dense(reference.norm(x, "encoder_norm")[:, 0], "head"), attentions


@pytest.mark.broad
def test_gradient_times_attention_equals_finite_differences_in_numpy():
    model, images = made(), pictures(count=1)
    _, weights = in_numpy(model, images)
    heads, tokens = weights[0].shape[1:3]
    relevance = np.eye(tokens)
    for block in range(2):
        slope = np.zeros((heads, tokens, tokens))
        for at in np.ndindex(*slope.shape):
            ends = [in_numpy(model, images, (block, *at, sign * 1e-4))[0][0, 1] for sign in (1, -1)]
            slope[at] = (ends[0] - ends[1]) / 2e-4
        relevance = relevance + np.maximum(slope * weights[block][0], 0).mean(0) @ relevance
    found = analysis.gradient_attention(model, images, 1)
    np.testing.assert_allclose(found[0].ravel(), relevance[0, 1:], rtol=2e-3, atol=1e-8)


@pytest.mark.parametrize("pooling", ["gap", "map"])
def test_relevance_of_a_model_without_a_class_token(pooling):
    model, images = made(pooling=pooling), pictures()
    maps = analysis.gradient_attention(model, images, batch_size=2)
    assert maps.shape == (3, 2, 3) and maps.min() >= 0 and maps.max() > 0
    np.testing.assert_allclose(analysis.gradient_attention(model, images[1:2]), maps[1:2], rtol=1e-3, atol=1e-9)
    for name in (
        "encoder_block_00",
        "encoder_block_01",
    ):
        out = model.get_layer(name).attention.out
        out.kernel.assign(0 * out.kernel)  # the output does not depend on attention
    if pooling == "gap":
        np.testing.assert_allclose(analysis.gradient_attention(model, images), 0, atol=1e-9)


def test_maps_of_a_hybrid_have_the_grid_of_their_layer():
    model, images = made(HYBRID, (16, 24, 3)), pictures((16, 24, 3))
    assert analysis.grad_cam(model, images).shape == (3, 4, 6)
    assert analysis.grad_cam(model, images, layer="stem_root_norm").shape == (3, 8, 12)
    assert analysis.grad_cam(model, images, layer="encoder_block_01").shape == (3, 4, 6)
    assert analysis.gradient_attention(model, images).shape == (3, 4, 6)
    assert analysis.class_attention(model, images).shape == (2, 3, 2, 4, 6)
    assert analysis.rollout_maps(model, images).shape == (3, 4, 6)
    assert analysis.capture(model, images).patch_size == (4, 4)


def test_grad_cam_of_blocks_with_a_convolution(tmp_path):
    model, images = made(replace(TINY, mlp_kernel_size=3), pooling="gap"), pictures()
    assert analysis.grad_cam(model, images).shape == (3, 2, 3)
    model.save(tmp_path / "model.keras")  # the graph of the model is as it was
    np.testing.assert_array_equal(
        *map(array, (keras.saving.load_model(tmp_path / "model.keras")(images), model(images)))
    )


def test_half_precision_is_near_float32():
    model, half = made(pooling="gap"), made(pooling="gap", dtype="mixed_bfloat16")
    half.set_weights(model.get_weights())
    images = pictures()
    for function in (analysis.grad_cam, analysis.gradient_attention):
        exact = function(model, images, 0)
        assert np.abs(function(half, images, 0) - exact).max() < 0.1 * exact.max()


def test_wrong_arguments_raise_an_error():
    model, images = made(), pictures()
    with pytest.raises(ValueError, match=r"classes expected 3 values from 0 to 2, one per image, received 3"):
        analysis.grad_cam(model, images, 3)
    with pytest.raises(ValueError, match=r"classes expected 3 values from 0 to 2, one per image, received \[0, 1\]"):
        analysis.gradient_attention(model, images, [0, 1])
    with pytest.raises(ValueError, match="layer expected one of Tiny's layers"):
        analysis.grad_cam(model, images, layer="nowhere")
    with pytest.raises(ValueError, match="layer expected one that outputs a map or tokens, received 'head'"):
        analysis.grad_cam(model, images, layer="head")
    headless = keras_vit.build(TINY, input_shape=(8, 12, 1), include_top=False)
    with pytest.raises(ValueError, match="model expected a classifier, received 'Tiny'"):
        analysis.grad_cam(headless, images)
    with pytest.raises(ValueError, match="which has no attention but the feature maps stage1"):
        analysis.gradient_attention(made(BIT, (16, 24, 1)), pictures((16, 24, 1)))


@pytest.mark.large
def test_gradients_are_the_same_on_jax():
    pytest.importorskip("jax", reason="the other Keras backend used here is JAX")
    from support import run_python

    model, images = made(), pictures(count=2)
    expected = [analysis.grad_cam(model, images), analysis.gradient_attention(model, images)]
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "import numpy as np, keras_vit\nfrom keras_vit import analysis\nfrom support import randomise\n"
        "row = keras_vit.Variant('Tiny', width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4)\n"
        "model = keras_vit.build(row, input_shape=(8, 12, 1), classes=3, classifier_activation=None)\n"
        f"images = np.array({images.tolist()}, 'float32')\nrandomise(model)\n"
        "print([analysis.grad_cam(model, images).tolist(), analysis.gradient_attention(model, images).tolist()])\n"
    )
    np.testing.assert_allclose(eval(run_python(code, backend="jax")), expected, atol=1e-5)  # noqa: S307
