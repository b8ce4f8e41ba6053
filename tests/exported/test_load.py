"""Exported files are loaded without TensorFlow and Keras, and everything about a format is read from its row."""

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise, run_python

import keras_vit
from keras_vit import cli
from keras_vit.export import export
from keras_vit.export.formats import FORMATS
from keras_vit.exported import load_export
from keras_vit.exported.folders import SUFFIXES

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
PACKAGES = {"onnx": "tf2onnx", "openvino": "openvino", "tflite": "ai_edge_litert"}


@needs_tensorflow
def test_predict_imports_neither_tensorflow_nor_keras(tmp_path):
    for package in PACKAGES.values():
        pytest.importorskip(package, reason="extra `formats` is not installed")
    model = randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c")))
    folder = export(model, tmp_path / "tiny", formats=tuple(PACKAGES)).path
    Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(tmp_path / "image.png")
    code = "import sys; sys.argv[0] = 'keras-vit'; from keras_vit import cli\n"
    for name in PACKAGES:
        file = folder / FORMATS[name].file
        code += f"assert cli.main(['predict', {str(file)!r}, {str(tmp_path / 'image.png')!r}]) == 0\n"
    code += "print([name for name in ('tensorflow', 'keras') if name in sys.modules])"
    *answers, imported = run_python(code).strip().splitlines()
    assert len(answers) == len(PACKAGES) and imported == "[]"


@needs_tensorflow
def test_the_first_format_of_the_table_is_loaded_from_a_folder(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model = randomise(keras_vit.build(TINY, classes=3))
    folder = export(model, tmp_path / "tiny", formats=("tflite-fp16", "tflite")).path
    assert load_export(folder).format == "tflite"
    assert load_export(folder / "model-fp16.tflite").format == "tflite-fp16"


def test_the_command_line_reads_the_names_and_suffixes_of_the_table(capsys):
    assert {".pb", ".tflite", ".onnx", ".xml"} <= SUFFIXES
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert ",".join(FORMATS) in shown
