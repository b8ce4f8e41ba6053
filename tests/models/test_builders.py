"""The builders: their signature, their parameter counts, their names."""

import dataclasses
import inspect
import math

import keras
import numpy as np
import pytest
from keras.src.backend.common import global_state
from support import max_difference, randomise

import keras_vit
from keras_vit.cost.operations import count
from keras_vit.cost.weightless import build_weightless
from keras_vit.layers import Head
from keras_vit.models.variants import ROWS, VARIANTS, find_variant
from keras_vit.weights.keras_file import without_weights
from keras_vit.weights.released import RELEASED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_parameter_counts_are_the_official_ones(row):
    model, published = build_weightless(row, include_top=False), row.parameters
    heads = [(), (Head(1000),), (Head(21843),)]
    expected = [published.headless, published.classes_1000, published.classes_21843]
    if published.classes_21843_representation is not None:
        heads.append((keras.layers.Dense(row.width, "tanh"), Head(21843)))
        expected.append(published.classes_21843_representation)
    with without_weights():
        for head in heads:
            features = model.output
            for layer in head:
                features = layer(features)
    trunk = sum(math.prod(variable.shape) for variable in model.trainable_variables)  # no moving averages
    found = [trunk + sum(layer.count_params() for layer in head) for head in heads]
    assert found == expected and count(model).parameters == published.headless
    assert all(variable._value is None for variable in model.trainable_variables)


def test_the_builders_own_heads_count_the_same():
    row = find_variant("ViT_Ti16")[0].parameters
    assert keras_vit.ViT_Ti16().count_params() == row.classes_1000
    assert keras_vit.ViT_Ti16(classes=21843).count_params() == row.classes_21843
    with_representation = keras_vit.ViT_Ti16(classes=21843, representation_size=192)
    assert with_representation.count_params() == row.classes_21843_representation


def test_every_row_has_a_builder_with_the_contracts_signature():
    expected = ["include_top", "weights", "input_tensor", "input_shape", "pooling", "classes"]
    expected += ["classifier_activation", "name"]
    keywords = ["patch_size", "representation_size", "activation", "layer_norm_epsilon", "dropout_rate"]
    keywords += ["attention_dropout_rate", "drop_path_rate", "include_preprocessing"]
    for row in VARIANTS:
        parameters = inspect.signature(getattr(keras_vit, row.name)).parameters.values()
        kinds = {kind: [p.name for p in parameters if p.kind is kind] for kind in {p.kind for p in parameters}}
        assert kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD] == expected
        assert kinds[inspect.Parameter.KEYWORD_ONLY][: len(keywords)] == keywords
        assert row.paper_name in getattr(keras_vit, row.name).__doc__


def test_a_row_states_the_pooling_of_its_builder():
    defaults = {name: p.default for name, p in inspect.signature(keras_vit.ViT_Little16_reg4).parameters.items()}
    assert (defaults["pooling"], defaults["norm_after_pooling"]) == ("gap", True)
    assert inspect.signature(keras_vit.SigLIP_B16).parameters["pooling"].default == "map"
    tiny = keras_vit.Variant("tiny", 8, 1, 8, 2, 4, image_size=8, pooling="gap", norm_after_pooling=True)
    names = [layer.name for layer in keras_vit.build(tiny).layers]
    assert "pooled_norm" in names and not {"class_token", "encoder_norm"} & set(names)
    other = keras_vit.build(tiny, pooling="token", norm_after_pooling=False)
    assert "class_token" in [layer.name for layer in other.layers]


def test_initialisers_are_the_official_ones():
    model = keras_vit.ViT_Ti16(classes=10)
    weights = {variable.path: keras.ops.convert_to_numpy(variable) for variable in model.weights}
    block = "encoder_block_03/"

    def uniform(path, limit):
        assert np.abs(weights[path]).max() <= limit
        assert np.isclose(weights[path].std(), limit / 3**0.5, rtol=0.02)

    uniform(block + "attention/qkv/kernel", (6 / (192 + 192)) ** 0.5)
    uniform(block + "attention/out/kernel", (6 / (192 + 192)) ** 0.5)
    uniform(block + "mlp/fc1/kernel", (6 / (192 + 768)) ** 0.5)
    uniform(block + "mlp/fc2/kernel", (6 / (192 + 768)) ** 0.5)
    assert np.isclose(weights[block + "mlp/fc1/bias"].std(), 1e-6, rtol=0.2)
    assert np.isclose(weights["embedding/kernel"].std(), (16 * 16 * 3) ** -0.5, rtol=0.02)
    assert np.isclose(weights["position_embedding/embedding"].std(), 0.02, rtol=0.02)
    for path in ("class_token/token", "embedding/bias", block + "attention/qkv/bias", "head/kernel", "head/bias"):
        assert not weights[path].any(), path
    assert (weights["encoder_norm/gamma"] == 1).all() and not weights["encoder_norm/beta"].any()


def test_stochastic_depth_rises_linearly():
    model = keras_vit.ViT_Ti16(drop_path_rate=0.11)
    rates = [layer.drop_path_rate for layer in model.layers if layer.name.startswith("encoder_block_")]
    np.testing.assert_allclose(rates, np.linspace(0, 0.11, 12))


@pytest.mark.parametrize(
    ("name", "row", "size", "tag"),
    [
        ("ViT_B16", "ViT_B16", 224, None),
        ("ViT-B/16", "ViT_B16", 224, None),
        ("vit_base_patch16_224", "ViT_B16", 224, None),
        ("vit_large_patch16_384", "ViT_L16", 384, None),
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", "ViT_B16", 224, "augreg_in21k_ft_in1k"),
        ("ViT-g/14", "ViT_g14", 224, None),
        ("ViT-G/14", "ViT_G14", 224, None),
    ],
)
def test_every_spelling_finds_its_row(name, row, size, tag):
    variant, found = find_variant(name)
    assert (variant.name, variant.image_size, found) == (row, size, tag)


def test_create_model_builds_what_the_name_says():
    model = keras_vit.create_model("vit_tiny_patch16_384", include_top=False)
    assert model.name == "ViT_Ti16" and model.input_shape == (None, 384, 384, 3)


def test_names_of_the_papers_21k_files_have_their_representation_layer(monkeypatch):
    def built(row, weights, **options):
        return build_weightless(row, **options)

    monkeypatch.setattr("keras_vit.models.builders.build", built)
    released = [row for row in RELEASED if row.tag.endswith(".orig_in21k")]
    for row in released:
        expected = find_variant(row.tag)[0].parameters
        assert keras_vit.create_model(row.tag).count_params() == expected.classes_21843_representation, row.tag
    assert len(released) == 9
    assert keras_vit.create_model(row.tag, include_top=False).count_params() == expected.headless
    other = keras_vit.create_model("vit_base_patch16_224.augreg_in21k")
    assert other.count_params() == find_variant("ViT_B16")[0].parameters.classes_21843


def test_a_build_that_fails_leaves_no_weights_to_be_made_later():
    with pytest.raises(ValueError, match="labels expected"):
        build_weightless(keras_vit.Variant("tiny", 8, 1, 8, 2, 4, image_size=8), labels=["a"])
    assert not global_state.get_global_attribute("uninitialized_variables")


def test_list_models_takes_a_pattern():
    assert keras_vit.list_models("ViT_L??") == ["ViT_L32", "ViT_L16"]
    assert len(keras_vit.list_models()) == len(ROWS)


def test_a_users_own_row_and_tensor():
    tensor = keras.Input((16, 16, 2))
    scaled = keras.layers.Rescaling(2.0)(tensor)
    variant = keras_vit.Variant(name="mine", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=(4, 8))
    model = keras_vit.build(variant, input_tensor=scaled, classes=3, name="other")
    assert model.name == "other" and model.input is tensor
    assert model.get_layer("embedding").output.shape == (None, 4, 2, 8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pooling": "max"}, r"pooling expected one of \('token', 'gap', 'map', None\), received 'max'\."),
        ({"pooling": None}, r"pooling expected one of \('token', 'gap', 'map'\) under a classifier, received None\."),
        ({"classes": 0}, r"classes expected a positive int, received 0\."),
        ({"input_shape": (8, 8)}, r"input_shape expected \(height, width, channels\), received \(8, 8\)\."),
        ({"input_shape": (8, 8, None)}, "embedding expected a known channel count, received shape"),
        ({"input_shape": (3, 8, 3)}, r"embedding expected images of at least one patch \(4x4 pixels\), received 3x8\."),
        ({"dropout_rate": 1.0}, r"dropout_rate expected a rate in \[0, 1\), received 1\.0\."),
        ({"attention_dropout_rate": -0.1}, r"attention_dropout_rate expected a rate in \[0, 1\), received -0\.1\."),
        ({"drop_path_rate": 2}, r"drop_path_rate expected a rate in \[0, 1\), received 2\."),
        ({"drop_path_rate": "0.1"}, r"drop_path_rate expected a rate in \[0, 1\), received '0\.1'\."),
        ({"layer_norm_epsilon": -1}, r"layer_norm_epsilon expected a positive number, received -1\."),
        (
            {"classifier_activation": "sofmax"},
            r"classifier_activation expected a Keras activation or None, received 'sofmax'\.",
        ),
        ({"patch_size": 0}, r"patch_size expected a positive int or \(height, width\), received 0\."),
        ({"labels": ["a"]}, r"labels expected 5 names, one for each class, received 1\."),
        (
            {"weights": "augreg"},
            r"weights expected a file or a tag of list_weights\(\), received 'augreg'; the nearest",
        ),
        (
            {"activation": "geluu"},
            "activation expected gelu_tanh, gelu, quick_gelu or a Keras activation, received 'geluu'",
        ),
    ],
)
def test_bad_options_get_one_sentence(options, sentence):
    variant = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as error:
        keras_vit.build(variant, **{"classes": 5, **options})
    assert "\n" not in str(error.value)


def test_bad_rows_and_names_get_one_sentence():
    row = keras_vit.Variant("tiny", width=9, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
    with pytest.raises(ValueError, match=r"num_heads expected a divisor of the width 9, received 2\."):
        keras_vit.build(row)
    for field, size in (("width", 0), ("depth", -1), ("depth", 2.5), ("mlp_dim", "8"), ("num_heads", 0)):
        with pytest.raises(ValueError, match=f"^{field} expected a positive int, received {size!r}\\.$"):
            keras_vit.build(dataclasses.replace(row, **{field: size}))
    row = dataclasses.replace(row, width=np.int64(8))
    assert keras_vit.build(row, classes=3).output_shape == (None, 3)
    with pytest.raises(
        ValueError, match="weights expected None for ViT_H16, which has no published weights, received 'augreg'"
    ):
        keras_vit.create_model("ViT_H16.augreg")
    with pytest.raises(ValueError, match="variant expected a keras_vit.Variant, received 'ViT_B16'"):
        keras_vit.build("ViT_B16")
    with pytest.raises(ValueError, match="received 'ViT_B61'; the nearest are ViT_B16, ") as error:
        keras_vit.create_model("ViT_B61")
    assert str(error.value).count(",") == 3  # three names


def test_an_image_of_the_wrong_shape_is_named():
    model = keras_vit.build(
        keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4), input_shape=(None, None, 3)
    )
    with pytest.raises(ValueError, match="embedding expected images of at least one patch"):
        model(np.zeros((1, 3, 8, 3), "float32"))
    with pytest.raises(ValueError, match="expected shape"):
        model(np.zeros((1, 8, 8, 4), "float32"))


def test_feature_model_returns_tokens_and_maps():
    variant = keras_vit.Variant("tiny", width=8, depth=2, mlp_dim=8, num_heads=2, patch_size=4)
    for shape in ((8, 12, 3), (None, None, 3)):
        model = randomise(keras_vit.build(variant, input_shape=shape, classes=2))
        x = np.random.default_rng(0).uniform(-1, 1, (2, 8, 12, 3)).astype("float32")
        tokens, last = keras_vit.feature_model(model, ["encoder_block_00", "encoder_norm"])(x)
        grid = keras_vit.feature_model(model, ["encoder_block_00"], as_grid=True)(x)
        raw = keras_vit.feature_model(model, ["tokens", "embedding"], as_grid=True)(x)
        assert tokens.shape == last.shape == (2, 7, 8) and grid.shape == (2, 2, 3, 8)
        assert max_difference(keras.ops.reshape(grid, (2, 6, 8)), tokens[:, 1:]) == 0
        assert max_difference(*raw) == 0
        direct = keras.Model(model.input, model.get_layer("encoder_block_00").output)
        assert max_difference(direct(x), tokens) == 0
    with pytest.raises(ValueError, match="layers expected names of tiny's layers .*, received 'block'"):
        keras_vit.feature_model(model, ["block"])
    with pytest.raises(ValueError, match="as_grid expected layers that output tokens, received 'head'"):
        keras_vit.feature_model(model, ["head"], as_grid=True)
