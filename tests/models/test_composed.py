"""A ViT inside a user's own model is found by the tools of this package, which answer as they do of a model of ours."""

import json

import keras
import numpy as np
import pytest
from support import first_quick, max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit import analysis, cost
from keras_vit.composed import flattened
from keras_vit.models.model_interface import model_interface, named_outputs

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")


def vit():
    return keras_vit.build(ROW, include_top=False)


def sequential(activation="softmax"):
    return keras.Sequential([keras.Input((8, 8, 3)), vit(), keras.layers.Dense(5, activation)])


def deep():
    top = keras.Sequential([keras.layers.Dropout(0.1), keras.layers.Dense(5), keras.layers.Softmax()])
    augment = keras.Sequential([keras.layers.RandomFlip(), keras.layers.Rescaling(1.0)])
    images = keras.Input((8, 8, 3))
    return keras.Model(images, top(vit()(augment(images))))


def flat():
    base = vit()
    return keras.Model(base.input, keras.layers.Dense(5, name="head", activation="softmax")(base.output))


COMPOSITIONS = pytest.mark.parametrize("make", first_quick([sequential, deep, flat]), ids=lambda make: make.__name__)


def twin_of(model):
    """A model of ours with the same weights."""
    twin = keras_vit.build(ROW, classes=5)
    for own, theirs in zip(twin.weights, model.weights, strict=True):
        own.assign(theirs)
    return twin


@COMPOSITIONS
def test_every_tool_answers_as_of_a_model_of_ours(make, tmp_path):
    model = randomise(make())
    twin = twin_of(model)
    for name, value in named_outputs(twin)(IMAGES, training=False).items():
        assert max_difference(named_outputs(model)(IMAGES, training=False)[name], value) < 1e-6, name
    assert model_interface(model).classes == 5 and model_interface(model).input_range == (-1.0, 1.0)
    layers = ["encoder_block_00", "encoder_norm"]
    for as_grid in (False, True):
        features = [keras_vit.feature_model(m, layers, as_grid)(IMAGES, training=False) for m in (model, twin)]
        assert max_difference(*features) < 1e-6
    tools = (analysis.class_attention, analysis.grad_cam, analysis.gradient_attention, analysis.features_of)
    for tool in (*tools, analysis.rollout_maps):
        assert np.abs(tool(model, IMAGES) - tool(twin, IMAGES)).max() < 1e-5, tool.__name__
    assert analysis.layer_outputs(model, IMAGES).layers == analysis.layer_outputs(twin, IMAGES).layers
    assert np.allclose(analysis.position_similarity(model), analysis.position_similarity(twin))
    assert cost.count(model).parameters == cost.count(twin).parameters
    answer = model(IMAGES, training=False)
    keras_vit.save_weights(model, tmp_path / "own.npz")
    read = keras_vit.from_pretrained(tmp_path / "own.npz", classifier_activation="softmax")
    assert max_difference(read(IMAGES), answer) < 1e-6
    filled = make()
    keras_vit.load_weights(filled, tmp_path / "own.npz")
    assert max_difference(filled(IMAGES, training=False), answer) < 1e-6
    assert max_difference(twin(IMAGES), answer) < 1e-6  # the model is left as it was


def test_a_model_of_ours_is_its_own_flat_model():
    for options in ({}, {"include_top": False}, {"include_top": False, "representation_size": 4}):
        model = keras_vit.build(ROW, **options)
        assert flattened(model) is model


def test_what_cannot_be_opened_is_named():
    class Wrapped(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = vit()

        def call(self, x):
            return self.inner(x)

    with pytest.raises(ValueError, match=r"the ViT 'tiny' inside the Wrapped 'wrapped.*pass that ViT"):
        analysis.class_attention(Wrapped(), IMAGES)
    images = keras.Input((8, 8, 3))
    other = keras_vit.build(ROW, include_top=False, name="other")
    two = keras.Model(images, keras.layers.Dense(2)(vit()(images) + other(images)), name="two")
    with pytest.raises(ValueError, match="one ViT inside, received 'two' with .*'tiny'.*: pass one of them"):
        keras_vit.feature_model(two, ["encoder_norm"])
    headed = keras_vit.build(ROW, classes=3)
    behind = keras.Model(headed.input, keras.layers.Dense(2)(headed.output), name="behind")
    with pytest.raises(ValueError, match="one classifier, received 'behind' with 'head' and, after it, 'dense"):
        model_interface(behind)
    other = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="expected encoder blocks"):
        analysis.class_attention(other, IMAGES)


def test_no_layout_takes_layers_between_the_vit_and_the_classifier(tmp_path):
    images = keras.Input((8, 8, 3))
    tokens = keras_vit.build(ROW, include_top=False, pooling=None)(images)
    pooled = keras.layers.GlobalAveragePooling1D(name="mean")(tokens)
    for name, features in (("mean", pooled), ("head", tokens)):
        model = keras.Model(images, keras.layers.Dense(2)(features))
        with pytest.raises(ValueError, match=f"layout 'npz' expected the classifier directly after .* with '{name}'"):
            keras_vit.save_weights(model, tmp_path / "other.npz")


@pytest.mark.broad
@needs_tensorflow
def test_the_verbs_predict_analyze_and_export(tmp_path, capsys):
    from keras_vit import cli

    model = randomise(sequential())
    source, picture = str(tmp_path / "mine.keras"), str(tmp_path / "picture.png")
    model.save(source)
    keras.utils.save_img(picture, np.random.default_rng(1).uniform(0, 255, (8, 8, 3)), scale=False)
    pixels = np.asarray(keras.utils.load_img(picture), "float32")[None]
    best = int(np.argmax(model(keras_vit.preprocess_input(pixels), training=False)))
    assert cli.main(["predict", source, picture, "--top", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["label"] == str(best)
    inside = ["--output", str(tmp_path / "inside"), "--parts", "attention,class"]
    assert cli.main(["analyze", source, picture, *inside]) == 0
    found = json.loads((tmp_path / "inside" / "analysis.json").read_text())
    assert found["blocks"] == 2 and found["images"][0]["predictions"][0]["label"] == str(best)
    assert cli.main(["export", source, "--output", str(tmp_path / "out"), "--formats", "saved_model,tflite"]) == 0
    assert (tmp_path / "out" / "1" / "model.tflite").is_file()
