"""`keras-vit analyze` on folders of images."""

import json

import numpy as np
import pytest
from PIL import Image
from support import randomise

import keras_vit
from keras_vit import cli

pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
TINY = keras_vit.Variant("Tiny", width=8, depth=1, mlp_dim=12, num_heads=2, patch_size=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "tiny.keras"
    randomise(keras_vit.build(TINY, input_shape=(8, 8, 3), classes=2, labels=["ant", "bee"])).save(file)
    return str(file)


def write_images(folder, count):
    folder.mkdir(parents=True)
    for i in range(count):
        pixels = np.random.default_rng(i).integers(0, 256, (8, 8, 3), dtype="uint8")
        Image.fromarray(pixels).save(folder / f"{i}.png")


def analyze(model, folder, output):
    assert cli.main(["analyze", model, str(folder), "--output", str(output), "--parts", "attention"]) == 0
    return json.loads((output / "analysis.json").read_text())


def test_a_folder_per_class_has_a_confusion_matrix(model, tmp_path):
    write_images(tmp_path / "photos/ant", 3)
    write_images(tmp_path / "photos/bee", 2)
    result = analyze(model, tmp_path / "photos", tmp_path / "out")
    assert {row["label"]: row["images"] for row in result["labelled"]["classes"]} == {"ant": 3, "bee": 2}
    assert result["pictures"][:2] == ["confusion.png", "predictions.png"]
    assert [row["name"] for row in result["images"]] == ["true: ant", "true: bee"]


def test_a_folder_of_other_names_has_none(model, tmp_path):
    write_images(tmp_path / "photos/holiday", 3)
    result = analyze(model, tmp_path / "photos", tmp_path / "out")
    assert "labelled" not in result and len(result["images"]) == 3


def test_a_folder_without_images_raises_an_error(model, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert cli.main(["analyze", model, str(tmp_path / "empty"), "--output", str(tmp_path / "out")]) == 2
    assert "images expected a folder of images" in capsys.readouterr().err
