"""A temperature in a model's head: the probabilities, the files and the exports that have it."""

import json

import keras
import numpy as np
import pytest
from support import adapt, needs_tensorflow, quantize, randomise, various

import keras_vit
from keras_vit.evaluate import set_temperature
from keras_vit.export import export
from keras_vit.exported import load_export

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (16, 8, 8, 3)).astype("float32")


def tiny(**options):
    return various(randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c"), **options), seed=1))


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("activation", ["softmax", None])
def test_the_logits_are_divided_and_the_classes_stay(activation, tmp_path):
    logits = keras.ops.convert_to_numpy(tiny(classifier_activation=None)(IMAGES))
    model = tiny(classifier_activation=activation)
    set_temperature(model, 2.0)
    set_temperature(model, 0.75)
    found = keras.ops.convert_to_numpy(model(IMAGES))
    expected = logits / 1.5 if activation is None else softmax(logits / 1.5)
    assert found == pytest.approx(expected, abs=1e-5)  # float32 logits of up to 6
    assert (found.argmax(axis=1) == logits.argmax(axis=1)).all() and len(set(logits.argmax(axis=1))) > 1
    model.save(tmp_path / "m.keras")
    read = keras_vit.load_model(tmp_path / "m.keras")
    assert read.get_layer("head").temperature == 1.5
    assert keras.ops.convert_to_numpy(read(IMAGES)) == pytest.approx(found, abs=1e-6)


@pytest.mark.broad
@needs_tensorflow
def test_exports_have_the_temperature_in_graph_and_manifest(tmp_path):
    model = tiny()
    plain = export(model, tmp_path / "plain", formats=["tflite"])
    assert json.loads((plain.path / "manifest.json").read_text())["temperature"] == 1.0
    assert "Temperature" not in (plain.path / "model_card.md").read_text()
    set_temperature(model, 3.0)
    done = export(model, tmp_path / "new", formats=["saved_model", "tflite"])
    assert json.loads((done.path / "manifest.json").read_text())["temperature"] == 3.0
    assert "- Temperature of the probabilities: 3, in the weights." in (done.path / "model_card.md").read_text()
    logits = load_export(plain.path / "model.tflite")(IMAGES)["logits"]
    for file in ("", "model.tflite"):
        answer = load_export(done.path / file)(IMAGES)
        assert answer["probabilities"] == pytest.approx(softmax(logits / 3), abs=1e-5)


@pytest.mark.broad
def test_what_cannot_be_divided_exactly_is_refused():
    composed = keras.Sequential([tiny(include_top=False, pooling="token"), keras.layers.Dense(2)])
    composed.build((None, 8, 8, 3))
    cases = {
        "a dense layer of yours": composed,
        "received none": tiny(include_top=False),
        "received sigmoid": tiny(classifier_activation="sigmoid"),
        "received int8": quantize(tiny(), "int8"),
        "received LoRA adapters": adapt(tiny()),
        "received bfloat16": tiny(dtype="bfloat16"),
    }
    for message, model in cases.items():
        with pytest.raises(ValueError, match=message):
            set_temperature(model, 2.0)
    for value in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="above 0"):
            set_temperature(tiny(), value)
