"""Several adapters on one base in one SavedModel: each answers as its Keras model does, and the base is stored once."""

import base64
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from serving import encoded, picture, started
from support import max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.cli import main
from keras_vit.export import export
from keras_vit.models.adapt import adapt_model, adapted_variables
from keras_vit.models.adapt_settings import Adapt

pytestmark = needs_tensorflow
ROW = keras_vit.Variant("tiny", width=32, depth=2, mlp_dim=64, num_heads=2, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")
LABELS = {"pets": ("cat", "dog"), "birds": ("owl", "tit", "jay")}


def built(**options):
    return randomise(keras_vit.build(ROW, **{"classes": 5, **options}))


def adapted(kind, labels, seed):
    """A model whose encoder has the weights of the base, another classifier, and changed adapters."""
    model = keras_vit.build(ROW, classes=len(labels), labels=labels)
    for variable, other in zip(model.variables[:-2], built().variables[:-2], strict=True):
        variable.assign(other)
    model = adapt_model(model, Adapt(kind, rank=None if kind == "ssf" else 2))
    rng = np.random.default_rng(seed)
    for variable in adapted_variables(model, kind):
        variable.assign(variable + 0.3 * rng.standard_normal(variable.shape).astype("float32"))
    return model


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    models = {"pets": adapted("lora", LABELS["pets"], 1), "birds": adapted("vpt", LABELS["birds"], 2)}
    for name, model in models.items():
        keras_vit.save_adapter(model, folder / f"{name}.safetensors")
    keras_vit.save_weights(built(), folder / "base.keras")
    files = [f"{name}={folder / name}.safetensors" for name in models]
    main(["export", str(folder / "base.keras"), "--output", str(folder / "animals"), "--adapters", *files, "--quiet"])
    return folder, models


@pytest.mark.broad
def test_every_adapter_has_signatures_that_answer_as_its_model_does(exported):
    folder, models = exported
    manifest = json.loads((folder / "animals" / "1" / "manifest.json").read_text())
    assert manifest["adapters"] == {name: list(labels) for name, labels in LABELS.items()}
    loaded = tf.saved_model.load(str(folder / "animals" / "1"))
    assert max_difference(loaded.signatures["serving_default"](images=IMAGES)["probabilities"], built()(IMAGES)) < 1e-6
    files = tf.constant([encoded(picture(seed), "PNG") for seed in range(2)])
    for name, model in models.items():
        answer = loaded.signatures[name](images=IMAGES)["probabilities"]
        assert max_difference(answer, model(IMAGES)) < 1e-6
        best = loaded.signatures[f"{name}_classify_bytes"](image_bytes=files)
        assert {label.decode() for label in best["labels"].numpy().ravel()} == set(LABELS[name])


@pytest.mark.broad
def test_the_weights_of_the_base_are_stored_and_loaded_once(exported):
    folder, models = exported
    loaded = tf.saved_model.load(str(folder / "animals" / "1"))
    variables = {id(variable): variable for function in loaded.signatures.values() for variable in function.variables}
    values = sum(math.prod(variable.shape) for variable in variables.values())
    trained = adapted_variables(models["pets"], "lora") + adapted_variables(models["birds"], "vpt")
    own = sum(math.prod(variable.shape) for variable in trained)
    base = built().count_params()
    assert base < values <= base + own
    size = (folder / "animals" / "1" / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert size < 4 * (base + own) + 10_000


@pytest.mark.broad
def test_a_server_chooses_the_adapter_by_the_signature(exported):
    folder, models = exported
    with started([folder / "animals"]) as server:
        for name, model in models.items():
            body = {"signature_name": name, "instances": IMAGES.tolist()}
            status, answer = server.predict("animals", body)
            received = np.array([row["probabilities"] for row in answer["predictions"]])
            assert status == 200 and max_difference(received, model(IMAGES)) < 1e-6
            tensor = {"name": "images", "shape": [3, 16, 16, 3], "datatype": "FP32", "data": IMAGES.ravel().tolist()}
            body = {"inputs": [tensor], "parameters": {"signature_name": name}, "outputs": [{"name": "probabilities"}]}
            status, answer = server.ask("POST", "/v2/models/animals/infer", body)
            received = np.reshape(answer["outputs"][0]["data"], (3, -1))
            assert status == 200 and max_difference(received, model(IMAGES)) < 1e-6
        image = {"image_bytes": {"b64": base64.b64encode(encoded(picture(0), "PNG")).decode()}}
        body = {"signature_name": "birds_classify_bytes", "examples": [image]}
        status, answer = server.predict("animals", body, "classify")
        assert status == 200 and {label for label, _ in answer["results"][0]} == set(LABELS["birds"])
        status, answer = server.predict("animals", {"signature_name": "fish", "instances": IMAGES.tolist()})
        assert status == 400 and "fish" in answer["error"]


@pytest.mark.broad
def test_lora_and_factors_are_merged_by_an_export(tmp_path):
    model = adapted("ssf", LABELS["pets"], 1)
    report = export(model, tmp_path / "merged", formats=["saved_model"])
    loaded = tf.saved_model.load(str(report.path))
    answer = loaded.signatures["serving_default"](images=IMAGES)["probabilities"]
    assert max_difference(answer, model(IMAGES)) < 1e-6
    names = {variable.name for variable in loaded.signatures["serving_default"].variables}
    assert not any("output_scale" in name for name in names)


@pytest.mark.large
def test_half_precision_has_the_adapters_too(exported, tmp_path):
    _, models = exported
    report = export(built(), tmp_path / "half", dtype="bfloat16", adapters=models)  # compares every signature
    assert {row.signature for row in report.rows} >= {"serving_default", "pets", "birds", "pets_classify_bytes"}


@pytest.mark.broad
def test_what_does_not_fit_is_refused(exported, tmp_path):
    _, models = exported
    base = built()
    with pytest.raises(ValueError, match=r"formats expected \['saved_model'\] with adapters"):
        export(base, tmp_path / "x", formats=["onnx"], adapters=models)
    with pytest.raises(ValueError, match="adapters expected names of letters, digits and _, .* received 'my pets'"):
        export(base, tmp_path / "x", adapters={"my pets": models["pets"]})
    other = keras_vit.build(ROW, input_shape=(8, 8, 3))
    with pytest.raises(ValueError, match=r"adapters expected models of images \(16, 16, 3\) in .* received 'pets' of"):
        export(base, tmp_path / "x", adapters={"pets": other})
    assert not (tmp_path / "x").exists() or not any((tmp_path / "x").iterdir())
    keras.utils.clear_session()
