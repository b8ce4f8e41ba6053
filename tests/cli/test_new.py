"""`keras-vit new`: the recipe that it writes fits its data, is a recipe of values, and trains."""

import io
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import ROOT, needs_tensorflow
from test_architecture import test_recipes_are_values as require_values

import keras_vit
from keras_vit import cli
from keras_vit.cli.new_data import DataFacts
from keras_vit.cli.new_model import model_facts
from keras_vit.cli.new_recipe import recipe_text
from keras_vit.cli.plan import fixed_plan
from keras_vit.train.model import build_model
from keras_vit.train.recipe.file import load_recipe
from keras_vit.train.recipe.inputs import check_sizes

pytestmark = needs_tensorflow


def photos(folder, classes=("ant", "bee", 'a "c"'), count=10, size=(40, 36), splits=("",), mode="RGB"):
    rng = np.random.default_rng(0)
    for split in splits:
        for label in classes:
            (folder / split / label).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (size[1], size[0], 3), "uint8")
                Image.fromarray(pixels).convert(mode).save(folder / split / label / f"{i}.png")
    return folder


def new(capsys, *arguments):
    assert cli.main(["new", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.broad
def test_the_recipe_of_a_folder_is_values_and_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos")
    assert cli.main(["new", "mine.py", "--data", "photos", "--model", "ViT_Ti16"]) == 0
    said = capsys.readouterr()
    assert said.out == "wrote mine.py: ViT_Ti16 with images of 36 pixels, 3 classes, 24 training and 6 test images\n"
    assert said.err.endswith("next: keras-vit train mine.py --workdir runs/mine\n")
    require_values(tmp_path / "mine.py")
    recipe = load_recipe("mine.py")
    check_sizes(recipe)
    assert (recipe.name, recipe.data.directory, recipe.data.batch_size) == ("mine", "photos", 4)
    assert (recipe.model.image_size, recipe.model.patch_size, recipe.model.channels) == (36, 4, 3)
    note = runpy.run_path("mine.py")["__doc__"]
    assert "Command:  keras-vit train mine.py --workdir runs/mine\n" in note
    assert '24 training and 6 test images of 3 classes (a "c", ant, bee)' in " ".join(note.split())
    assert "fixed fifth of every class" in " ".join(note.split())
    small = ["--set", "steps=2", "model.image_size=12"]
    assert cli.main(["train", "mine.py", "--workdir", "runs/mine", *small]) == 0
    summary = json.loads((tmp_path / "runs/mine/summary.json").read_text())
    assert summary["labels"] == ['a "c"', "ant", "bee"] and summary["steps"] == 2
    assert (summary["train_examples"], summary["test_examples"]) == (24, 6)


@pytest.mark.broad
def test_splits_broken_files_and_grey_images_are_in_the_recipe(tmp_path, capsys):
    folder = photos(tmp_path / "both", splits=("train", "test"), size=(90, 80), mode="L")
    (folder / "train" / "ant" / "0.png").write_bytes(b"no image")
    found = new(capsys, tmp_path / "both.py", "--data", folder, "--model", "ViT_Ti16")
    assert (found["train_examples"], found["test_examples"], found["broken_files"]) == (29, 30, 1)
    recipe = load_recipe(tmp_path / "both.py")
    assert (recipe.model.image_size, recipe.model.patch_size, recipe.model.channels) == (80, None, 1)
    assert (recipe.data.train_split, recipe.data.test_split, recipe.data.on_error) == ("train", "test", "skip")
    assert "own test split" in (tmp_path / "both.py").read_text()
    shutil.rmtree(folder / "test")
    new(capsys, tmp_path / "cut.py", "--data", folder, "--model", "ViT_Ti16")
    recipe = load_recipe(tmp_path / "cut.py")
    assert (recipe.data.train_split, recipe.data.test_split) == ("train[:80%]", "train[80%:]")


def test_without_data_the_recipe_trains_on_digits(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="extra `recipes` is not installed")
    found = new(capsys, tmp_path / "first.py")
    assert (
        found["classes"] == [str(digit) for digit in range(10)]
        and found["image_size"] == 8
        and load_recipe(tmp_path / "first.py").epochs == 20
    )
    recipe = load_recipe(tmp_path / "first.py")
    assert (recipe.data.source, recipe.model.channels, recipe.data.batch_size) == ("digits", 1, 32)
    check_sizes(recipe)


DATA = DataFacts("folder", 'C:\\new\n"""', ("a\\", '"""'), 1000, 100, side=500)


@pytest.mark.parametrize(
    ("name", "side", "image_size", "patch_size"),
    [
        (None, 500, 224, None),
        (None, 32, 224, None),
        ("ViT_B16", 500, 224, None),
        ("ViT_B16", 100, 96, None),
        ("ViT_B16", 32, 32, 4),
        ("ViT_B16", 5, 4, 2),
        ("BiT_R50x1", 100, 128, None),
        ("R50_ViT_B16", 200, 192, None),
    ],
)
def test_the_sizes_fit_the_images_and_published_weights_keep_theirs(name, side, image_size, patch_size, tmp_path):
    data = DataFacts(**{**vars(DATA), "side": side})
    model = model_facts(name, data)
    assert (model.image_size, model.patch_size, model.fine_tuned) == (image_size, patch_size, name is None)
    (tmp_path / "odd.py").write_text(
        recipe_text("odd", data, model, fixed_plan(data, model.fine_tuned), "keras-vit train odd.py", "2026-01-02")
    )
    recipe = load_recipe(tmp_path / "odd.py")  # in spite of quotes, newlines and backslashes in names
    check_sizes(recipe)
    assert recipe.data.directory == DATA.directory and recipe.model.image_size == image_size
    assert (recipe.optimizer.layer_decay is None or recipe.optimizer.layer_decay == 1.0) == (name is not None)


def test_data_sets_with_several_classes_per_image_get_a_sigmoid(tmp_path):
    data = DataFacts("tfds:many", None, ("a", "b"), 8, 2, "train", "validation", multi=True)
    text = recipe_text("many", data, model_facts("ViT_Ti16", data), fixed_plan(data, False), "", "")
    (tmp_path / "many.py").write_text(text)
    recipe = load_recipe(tmp_path / "many.py")
    assert (recipe.loss.kind, recipe.data.test_split, recipe.data.batch_size) == ("sigmoid", "validation", 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["there.py"], "RECIPE.py expected a new file, received 'there.py', which exists; choose another."),
        (["mine.txt"], "RECIPE.py expected a name ending in .py in a folder that exists, received 'mine.txt'."),
        (["absent/mine.py"], "RECIPE.py expected a name ending in .py in a folder that exists"),
        (["mine.py", "--data", "absent"], "--data expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), a "),
        (["mine.py", "--data", "empty"], "directory expected a folder for each of at least 2 classes in 'empty'"),
        (["mine.py", "--model", "ViT_B61"], "name expected a model of list_models(), received 'ViT_B61'"),
        (["mine.py", "--data-dir", "empty"], "--data-dir expected --data tfds:NAME"),
        (["mine.py", "--data", "tfds:absent_set", "--data-dir", "empty"], "source expected 'absent_set' prepared in "),
    ],
)
def test_wrong_arguments_write_nothing(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert cli.main(["new", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"keras-vit new: {sentence}")
    assert (tmp_path / "there.py").read_text() == "mine" and not (tmp_path / "mine.py").exists()


def test_an_empty_class_is_refused_as_training_does(tmp_path, capsys):
    folder = photos(tmp_path / "photos")
    (folder / "wasp").mkdir()
    assert cli.main(["new", str(tmp_path / "mine.py"), "--data", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.endswith("found none in wasp; put images there, or remove the folder.\n")
    assert not (tmp_path / "mine.py").exists()


def test_more_broken_files_than_training_leaves_out_lead_to_check(tmp_path, capsys):
    folder = photos(tmp_path / "photos", count=20)
    for path in sorted((folder / "ant").iterdir())[:9]:
        path.write_bytes(b"no image")
    assert cli.main(["new", str(tmp_path / "mine.py"), "--data", str(folder), "--model", "ViT_Ti16"]) == 0
    said = capsys.readouterr()
    assert "training leaves out at most three of a split" in said.out
    assert said.err.endswith(f"next: keras-vit check {folder}\n")


@pytest.mark.broad
def test_a_file_of_weights_is_fine_tuned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = photos(tmp_path / "photos", size=(230, 230))
    keras_vit.save_weights(keras_vit.ViT_Ti16(classes=7), "mine.safetensors", layout="timm")
    found = new(capsys, "mine.py", "--data", folder, "--model", "mine.safetensors")
    assert (found["model"], found["image_size"]) == ("ViT_Ti16", 224)
    recipe = load_recipe("mine.py")
    assert (recipe.model.variant, recipe.model.weights) == ("ViT_Ti16", "mine.safetensors")
    assert recipe.optimizer.layer_decay == 0.75 and "read from mine.safetensors" in Path("mine.py").read_text()
    mine = keras_vit.Variant("mine", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=8)
    keras_vit.build(mine, input_shape=(16, 16, 3), classes=2, pooling="gap").save("other.keras")
    found = new(capsys, "other.py", "--data", folder, "--model", "other.keras")
    assert found["image_size"] == 16
    recipe = load_recipe("other.py")
    sizes = ("width", "depth", "mlp_dim", "num_heads", "patch_size")
    assert [getattr(recipe.model.row, name) for name in sizes] == [8, 1, 8, 2, (8, 8)]
    assert recipe.model.pooling == "gap" and recipe.optimizer.layer_decay == 0.75
    built = build_model(recipe, ("a", "b", "c"))
    kernels = [model.get_layer("embedding").kernel for model in (built, keras_vit.load_model("other.keras"))]
    assert np.array_equal(*kernels) and built.output_shape == (None, 3)


@pytest.mark.broad
def test_a_bit_of_a_file_has_no_stochastic_depth(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = photos(tmp_path / "photos", size=(230, 230))
    row = keras_vit.BiTVariant("bit", units=(1, 1), width_factor=0.5)
    keras_vit.build(row, input_shape=(64, 64, 3), classes=2).save("bit.keras")
    new(capsys, "bit.py", "--data", folder, "--model", "bit.keras")
    recipe = load_recipe("bit.py")
    assert recipe.model.row.units == (1, 1) and recipe.model.drop_path_rate == 0.0
    assert build_model(recipe, ("a", "b", "c")).output_shape == (None, 3)


@pytest.mark.broad
def test_the_decoders_do_not_print_into_the_command(tmp_path):
    folder = photos(tmp_path / "photos")
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), "uint8")).save(whole, "JPEG")
    (folder / "ant" / "cut.jpg").write_bytes(whole.getvalue()[:300])  # libjpeg prints a sentence of its own
    Image.new("L", (10_000, 9_000)).save(folder / "bee" / "large.png")  # Pillow warns of it
    command = [sys.executable, "-m", "keras_vit.cli", "new", str(tmp_path / "mine.py"), "--data", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if " files/s" not in line]  # progress, on a slow machine
    assert done.returncode == 0 and said == [f"next: keras-vit train {tmp_path / 'mine.py'} --workdir runs/mine"]
