from dataclasses import replace

import keras
import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from support import golden_model, randomise

import keras_vit
from keras_vit import analysis

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4)
HYBRID = replace(TINY, width=16, patch_size=1, stem=keras_vit.ResNetStem((1,), 0.5))
BIT = keras_vit.BiTVariant("tiny_bit", units=(1, 1), width_factor=0.5)


def made(row=TINY, shape=(8, 12, 3), **options):
    return randomise(keras_vit.build(row, input_shape=shape, classes=3, **options))


def pictures(shape=(8, 12, 3), count=3):
    return np.random.default_rng(0).uniform(-1, 1, (count, *shape)).astype("float32")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("pooling", ["token", "gap"])
def test_maps_are_the_outputs_of_the_layers_on_their_grid(pooling):
    model, images = made(pooling=pooling), pictures()
    outputs = analysis.layer_outputs(model, images, batch_size=2)
    assert outputs.layers == ("embedding", "position_embedding", "encoder_block_00", "encoder_block_01", "encoder_norm")
    names = list(outputs.layers)
    for name, output in zip(names, outputs.maps, strict=True):
        expected = array(keras_vit.feature_model(model, [name], as_grid=True)(images))
        np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_allclose(outputs.norms()[2], np.sqrt((outputs.maps[2] ** 2).sum(-1)), rtol=1e-6)


def test_colours_are_three_principal_components_over_all_images():
    outputs = analysis.layer_outputs(made(), pictures())
    tokens = outputs.maps[-1].reshape(-1, 8).astype("float64")
    theirs = PCA(3).fit(tokens)
    assert outputs.explained_variance()[-1] == pytest.approx(theirs.explained_variance_ratio_.sum(), rel=1e-6)
    colours = outputs.colours()[-1]
    assert colours.shape == (3, 2, 3, 3) and colours.min() == 0 and colours.max() == 1
    for axis in range(3):  # colours are proportional to the components between the percentiles
        plane = theirs.transform(tokens)[:, axis]
        inside = (plane > np.percentile(plane, 2)) & (plane < np.percentile(plane, 98))
        together = np.corrcoef(plane[inside], colours.reshape(-1, 3)[inside, axis])[0, 1]
        assert abs(together) == pytest.approx(1, abs=1e-6)


def test_hybrids_and_bits_have_their_stages():
    outputs = analysis.layer_outputs(made(HYBRID, (16, 24, 1)), pictures((16, 24, 1)))
    assert outputs.layers[:3] == ("stem_root_pool", "stem_stage1", "embedding")
    assert {output.shape[1:3] for output in outputs.maps} == {(4, 6)}
    outputs = analysis.layer_outputs(made(BIT, (32, 40, 1)), pictures((32, 40, 1)))
    assert outputs.layers == ("root_pool", "stage1", "stage2")
    assert [output.shape[1:3] for output in outputs.maps] == [(8, 10), (8, 10), (4, 5)]
    flat = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()], name="flat")
    with pytest.raises(ValueError, match="model expected one of this package, received 'flat'"):
        analysis.layer_outputs(flat, pictures((4, 4, 1)))


@pytest.mark.parametrize(
    ("row", "shape"), [(TINY, (9, 14, 3)), (TINY, (8, 8, 1)), (HYBRID, (16, 24, 3)), (BIT, (32, 40, 1))]
)
def test_the_picture_shows_the_layer_outputs(row, shape, tmp_path):
    outputs = analysis.layer_outputs(made(row, shape), pictures(shape))
    figure = analysis.plot_layer_outputs(outputs, tmp_path / "layers.png", index=1, name="a cat")
    titles = " ".join(axes.get_title(loc="left") for axes in figure.subfigs[0].axes)
    assert ("patches of 4 × 4" in titles) == (row is TINY)
    lengths = [axes for axes in figure.subfigs[1].axes if axes.get_title(loc="center")]
    np.testing.assert_allclose(lengths[-1].images[0].get_array(), outputs.norms()[-1][1], rtol=1e-6)
    assert imread(tmp_path / "layers.png")[..., :3].std() > 0.05
    with pytest.raises(ValueError, match="index expected one of 3 images, received 3"):
        analysis.plot_layer_outputs(outputs, tmp_path / "layers.png", index=3)


def test_filters_are_scikit_learns_principal_components():
    model = made()
    found, shares = analysis.embedding_filters(model, 5)
    kernel = array(model.get_layer("embedding").kernel)  # (4, 4, 3, 8): eight filters
    theirs = PCA(5).fit(kernel.reshape(-1, 8).T.astype("float64"))
    expected = theirs.components_ * np.sign((theirs.components_ * found.reshape(5, -1)).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.reshape(5, -1), expected, atol=1e-6)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, rtol=1e-6)
    assert found.shape == (5, 4, 4, 3)
    assert analysis.embedding_filters(model)[0].shape == (7, 4, 4, 3)  # eight filters span seven directions
    assert analysis.embedding_filters(made(HYBRID, (16, 24, 1)), 3)[0].shape == (3, 7, 7, 1)
    assert analysis.embedding_filters(made(BIT, (32, 40, 1)), 3)[0].shape == (3, 7, 7, 1)


def test_position_similarity_is_the_cosine_of_the_table():
    model = golden_model("g1")
    layer = model.get_layer("position_embedding")
    table = array(layer.embedding)[0, layer.prefix_tokens :]
    found = analysis.position_similarity(model)
    tokens = layer.grid[0] * layer.grid[1]
    np.testing.assert_allclose(found.reshape(tokens, tokens), cosine_similarity(table), atol=1e-6)
    with pytest.raises(ValueError, match="model expected position embeddings, received 'tiny_bit'"):
        analysis.position_similarity(made(BIT, (32, 40, 1)))


@pytest.mark.parametrize("shape", [(8, 12, 3), (None, None, 3)])
def test_similarity_of_fixed_positions_depends_on_the_offset_only(shape):
    found = analysis.position_similarity(made(replace(TINY, positions="sincos2d", image_size=16), shape))
    down, across = found.shape[:2]
    assert (down, across) == ((2, 3) if shape[0] else (4, 4))
    frequencies = 10_000.0 ** -np.array([0.0, 1.0])  # D = 8 has two
    for i, j, k, m in np.ndindex(*found.shape):
        expected = (np.cos(frequencies * (i - k)) + np.cos(frequencies * (j - m))).sum() / 4
        assert found[i, j, k, m] == pytest.approx(expected, abs=1e-5)


def test_figure_7_draws_and_returns_what_the_model_has(tmp_path):
    model, images = made(), pictures()
    found = analysis.plot_figure7(model, images, tmp_path / "f.png", components=6)
    assert found["filters_explained"] == pytest.approx(analysis.embedding_filters(model, 6)[1].sum())
    np.testing.assert_array_equal(found["position_similarity"], analysis.position_similarity(model))
    np.testing.assert_allclose(found["attention_distance"], analysis.attention_distance(model, images), rtol=1e-6)
    assert imread(tmp_path / "f.png")[..., :3].std() > 0.05
    found = analysis.plot_figure7(made(BIT, (32, 40, 1)), None, tmp_path / "b.png")
    assert found["position_similarity"] is None and found["attention_distance"] is None
