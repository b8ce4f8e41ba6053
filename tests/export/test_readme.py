"""The Python code in saved_models/README.md runs."""

import importlib.util
import re

import numpy as np
import pytest
from PIL import Image
from support import ROOT, needs_tensorflow, randomise

import keras_vit

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "saved_models" / "README.md").read_text(encoding="utf-8"), re.S)
pytestmark = needs_tensorflow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from keras_vit.export import export
    from keras_vit.export.formats import default_formats

    tiny = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
    model = randomise(keras_vit.build(tiny, classes=3, labels=("a", "b", "c")))
    folder = tmp_path_factory.mktemp("readme")
    asked = ("onnx",) if importlib.util.find_spec("tf2onnx") else ()
    export(model, folder / "saved_models" / "digits", formats=(*default_formats(False), *asked))
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), "uint8")).save(folder / "image.png")
    return folder


def test_there_is_one_block_a_way_of_loading():
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_each_block_prints_a_label(block, folder, monkeypatch, capsys):
    if "onnxruntime" in block:
        pytest.importorskip("tf2onnx", reason="extra `formats` is not installed")
    monkeypatch.chdir(folder)
    exec(block, {})
    assert re.search(r"\b[abc]\b", capsys.readouterr().out)
