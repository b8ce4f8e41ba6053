"""The table of kinds of fine-tuning: its recipes, and its page from recorded runs."""

import json
import types

import pytest

from benchmarks import adaptations
from keras_vit.train.recipe.file import from_json, to_json

OPTIONS = types.SimpleNamespace(model="DINOv2_S14", weights=None, image_size=56, epochs=2, precision="float32")


def summary(accuracy, images_per_second, trained=None):
    found = {"accuracy": accuracy, "images_per_second": images_per_second, "peak_memory": 2_000_000_000}
    found |= {"parameters": 1_000, "steps": 10, "train_examples": 320, "test_examples": 1_500, "labels": ["a", "b"]}
    return found if trained is None else found | {"trained_parameters": trained}


@pytest.fixture
def trained(monkeypatch):
    """Write the summary of a run in place of its training; returns the recipes."""
    recipes = []

    def train(recipe, workdir, data_dir):
        recipes.append((recipe, data_dir))
        workdir.mkdir(parents=True)
        found = summary(0.5, 10) if recipe.adapt is None else summary(0.4 + 0.1 * recipe.seed, 40, 25)
        (workdir / "summary.json").write_text(json.dumps(found))

    monkeypatch.setattr(adaptations, "train", train)
    return recipes


def test_a_row_is_a_recipe_that_a_file_holds():
    data, in_tfds = adaptations.data_of("tfds:cifar10:2", 32)
    assert in_tfds and data.train_split == "train[:2%]" and data.test_split == "test[:20%]"
    for key, row in adaptations.ROWS.items():
        recipe = adaptations.recipe_of(key, row, data, OPTIONS, seed=1)
        assert from_json(to_json(recipe)) == recipe and recipe.seed == 1
        assert (recipe.adapt is None) == (key == "all")


def test_the_page_has_means_shares_and_ratios(trained, tmp_path):
    (tmp_path / "pets").mkdir()
    arguments = [
        "--weights",
        "x",
        "--data",
        f"pets={tmp_path / 'pets'}",
        "--data",
        "c=tfds:cifar10:2",
        "--seeds",
        "0,1",
    ]
    arguments += ["--data-dir", "d", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    assert adaptations.main(arguments) is None
    assert len(trained) == 2 * 2 * len(adaptations.ROWS)
    assert {directory for recipe, directory in trained if recipe.data.source == "folder"} == {None}
    assert {directory for recipe, directory in trained if recipe.data.source != "folder"} == {"d"}
    text = (tmp_path / "adaptations.md").read_text()
    assert "| all weights, the head first | 50.0 ± 0.0 | 50.0 ± 0.0 | 100.00 % | 1.00 | 2.00 |" in text
    assert "| BitFit | 45.0 ± 7.1 | 45.0 ± 7.1 | 2.50 % | 0.25 | 2.00 |" in text
    assert "- c: 2 classes, 320 images to train, 1,500 to test, 10 steps." in text
    assert adaptations.main(arguments) is None and len(trained) == 2 * 2 * len(adaptations.ROWS)  # nothing twice
    (tmp_path / "adaptations.md").unlink()
    assert adaptations.main(["--read", "--output", str(tmp_path)]) is None
    assert (tmp_path / "adaptations.md").read_text() == text


def test_missing_arguments_get_a_sentence():
    assert adaptations.main(["--weights", "x"]).endswith(
        "expected --weights and --data, or --read, received '--weights x'"
    )
