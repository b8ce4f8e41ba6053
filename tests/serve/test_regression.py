"""A served regression answers in units by the name of its target, and so does the page."""

import shutil

import numpy as np
import pytest
from serve.test_page import shown
from serving import b64, encoded, picture, started
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit.export import export
from keras_vit.layers import RegressionHead
from keras_vit.models.features import head_features
from keras_vit.models.model_interface import model_interface
from keras_vit.models.vision_model import VisionModel
from keras_vit.preprocessing.inputs import load_image

pytestmark = needs_tensorflow


@pytest.fixture(scope="module")
def ages(tmp_path_factory):
    """A server of a tiny regression of `age` and `weight`, and its model."""
    row = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=16)
    features = head_features(keras_vit.build(row, classes=2))
    head = RegressionHead(2, (40.0, 70.0), (10.0, 5.0), ("age", "weight"), name="head")
    model = randomise(VisionModel(features.input, head(features.output)))
    folder = tmp_path_factory.mktemp("served") / "ages"
    export(model, folder, formats=("saved_model",))
    with started([folder]) as server:
        yield server, model


def expected(model, data):
    interface = model_interface(model)
    return np.asarray(model(interface.inputs_of(load_image(data, interface.image_shape)[None])))[0]


@pytest.mark.broad
def test_predict_names_the_targets_and_an_unreadable_file(ages):
    server, model = ages
    data = encoded(picture(), "PNG")
    body = {"signature_name": "regress_bytes", "instances": [b64(data), b64(b"no image")]}
    status, answer = server.predict("ages", body)
    good, bad = answer["predictions"]
    assert status == 200 and good["targets"] == ["age", "weight"] and good["error"] == "" and bad["error"]
    np.testing.assert_allclose(good["values"], expected(model, data), rtol=1e-4)


@pytest.mark.broad
@pytest.mark.skipif(shutil.which("node") is None, reason="Node, which runs the page's script, is not installed")
def test_the_page_shows_values_without_percent(ages, tmp_path):
    server, model = ages
    data = encoded(picture(), "PNG")
    found = shown(server, data, tmp_path)["rows"]
    assert [name for name, _ in found] == ["age", "weight"]
    np.testing.assert_allclose([float(value) for _, value in found], expected(model, data), rtol=1e-3)
