"""ViT-B/16 and R50+ViT-B/16 pass the comparison in every format."""

import keras
import numpy as np
import pytest
from support import needs_tensorflow

import keras_vit
from keras_vit.export import export
from keras_vit.export.formats import FORMATS

pytestmark = [needs_tensorflow, pytest.mark.large]
LEFT_OUT = {"tflite-int16x8"}  # its kernels are the reference ones: minutes an image


def made(name):
    """Twelve images, and a model whose head names the nearest of the first ten.

    With a random head an untrained model scores two classes almost alike, and int8 may exchange them.
    """
    model = keras_vit.create_model(name, classes=10)
    blots = np.random.default_rng(1).uniform(0, 255, (12, 5, 5, 3)).astype("float32")
    pixels = np.clip(keras.ops.convert_to_numpy(keras.ops.image.resize(blots, (224, 224))), 0, 255)
    head = model.get_layer("head")
    features = keras.Model(model.input, head.input)(pixels[:10] / 127.5 - 1)
    features = keras.ops.convert_to_numpy(features).astype("float64")
    # nearest class mean: the largest -|f - mean|^2 / 2, without the term that all classes share
    centre = features.mean(0)
    centred = features - centre
    kernel = centred.T / np.linalg.norm(centred, axis=1).mean()
    head.kernel.assign(kernel)
    head.bias.assign(-(centre @ kernel) - (centred.T * kernel).sum(0) / 2)
    return model, pixels


@pytest.mark.parametrize("name", ["ViT_B16", "R50_ViT_B16"])
def test_every_format_passes(name, tmp_path):
    for package in ("ai_edge_litert", "tf2onnx", "onnxruntime", "openvino", "nncf"):
        pytest.importorskip(package, reason="extra `formats` is not installed")
    model, pixels = made(name)
    formats = [name for name in FORMATS if name not in LEFT_OUT]
    report = export(model, tmp_path / name, pixels[:8], formats=formats, calibration=pixels[8:])
    assert {row.format for row in report.rows} == set(formats)
    weights = 4 * model.count_params()
    size = {row.format: row.size / weights for row in report.rows}
    # Some formats keep equal arrays once, and an untrained model has many: zeros as biases.
    whole = {name: size[name] for name in ("saved_model", "onnx", "openvino", "tflite")}
    assert all(0.99 < share < 1.01 for share in whole.values()), whole
    assert size["tflite-int8"] < 0.27 and size["openvino-int8"] < 0.27


@pytest.mark.parametrize("name", ["ViT_B16", "R50_ViT_B16"])
def test_a_bfloat16_saved_model_passes(name, tmp_path):
    model, pixels = made(name)
    report = export(model, tmp_path / name, pixels[:8], formats=("saved_model",), dtype="bfloat16")
    assert {row.signature for row in report.rows} == {"serving_default", "classify_bytes", "features", "attention"}
    assert report.rows[0].size / (4 * model.count_params()) < 0.51
