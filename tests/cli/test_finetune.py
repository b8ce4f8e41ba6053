"""`keras-vit finetune`: from a folder to a tested model, its export and its report."""

import csv
import json
import shutil
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit import cli
from keras_vit.models.adapt_settings import RANKS
from keras_vit.train.recipe import Augment

pytestmark = needs_tensorflow
LABELS = ("day", "night")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """ViT-Ti/16 with random values, as a file of published weights is."""
    file = tmp_path_factory.mktemp("weights") / "ti16.safetensors"
    keras_vit.save_weights(randomise(keras_vit.ViT_Ti16(classes=5)), file, layout="timm")
    return file


@pytest.fixture
def photos(tmp_path):
    """Day and night, 20 pictures each; one of them twice, and one broken."""
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    for label, colour in (("day", 180), ("night", 60)):
        (folder / label).mkdir(parents=True)
        for i in range(20):
            cells = np.clip(rng.normal(colour, 40, (6, 6, 3)), 0, 255).astype("uint8")
            Image.fromarray(cells).resize((48, 40), Image.Resampling.BICUBIC).save(folder / label / f"{i:02d}.jpg")
    Image.open(folder / "day" / "00.jpg").resize((96, 80)).save(folder / "day" / "copy.jpg", quality=50)
    (folder / "night" / "broken.jpg").write_bytes((folder / "night" / "00.jpg").read_bytes()[:300])
    return folder


def run(*arguments):
    return cli.main(["finetune", *map(str, arguments)])


def table(workdir):
    with (workdir / "splits.csv").open() as file:
        return {row["path"].rpartition("/photos/")[2]: row for row in csv.DictReader(file)}


def plan(photos, workdir, weights, *more):
    return run(photos, "--workdir", workdir, "--model", weights, "--image-size", 32, "--plan", *more)


def test_the_plan_says_what_was_found_and_chosen_and_can_be_edited(photos, weights, tmp_path, capsys):
    workdir = tmp_path / "run"
    assert plan(photos, workdir, weights) == 0
    said = capsys.readouterr()
    assert f"left out {photos}/night/broken.jpg: JPEG that is damaged" in " ".join(said.out.split())
    for words in ("29 images to train on, 6 for validation, 6 to test: day 21, night 20", "ViT_Ti16 with images of 32"):
        assert words in " ".join(said.out.split())
    rows = table(workdir)
    assert Counter(row["split"] for row in rows.values()) == {"train": 29, "validation": 6, "test": 6}
    assert rows["day/00.jpg"]["split"] == rows["day/copy.jpg"]["split"] and "night/broken.jpg" not in rows
    from keras_vit.train.recipe.file import load_recipe

    recipe = load_recipe(workdir / "recipe.py")
    assert recipe.model.weights == str(weights) and recipe.model.image_size == 32
    assert (recipe.evaluate.split, recipe.checkpoint.use_best, recipe.data.source) == ("validation", True, "csv")
    assert recipe.evaluate.patience == recipe.epochs // 5 == 10
    before = (workdir / "recipe.py").read_text()
    assert run(photos, "--workdir", workdir, "--plan") == 0 and (workdir / "recipe.py").read_text() == before
    assert run(photos, "--workdir", workdir, "--image-size", 48) == 2
    assert "--workdir expected a new folder with --image-size, received" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "rank", "rate", "words"),
    [
        pytest.param("lora", 4, 1e-3, "trains matrices of rank 4 for query and value", marks=pytest.mark.broad),
        pytest.param("vpt", None, 2e-3, "trains 10 tokens in the input of each block", marks=pytest.mark.broad),
        pytest.param("adapter", None, 1e-3, "trains a bottleneck of width 64", marks=pytest.mark.broad),
        pytest.param("bitfit", None, 1e-3, "trains the biases, and the head", marks=pytest.mark.broad),
        pytest.param("ssf", None, 1e-3, "trains a factor for each output", marks=pytest.mark.broad),
        ("probe", None, 2e-3, "the head alone, on features that are computed once per image"),
    ],
)
def test_the_plan_of_few_trained_weights(kind, rank, rate, words, photos, weights, tmp_path, capsys):
    from keras_vit.train.recipe.file import load_recipe

    assert plan(photos, tmp_path / "run", weights, "--adapt", kind, *(["--rank", rank] if rank else [])) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert words in said and f"rate {rate:g}, the same in all layers, for {kind}" in said
    recipe = load_recipe(tmp_path / "run" / "recipe.py")
    assert (recipe.adapt.kind, recipe.adapt.size) == (kind, rank or RANKS[kind])
    assert (recipe.optimizer.learning_rate, recipe.optimizer.layer_decay) == (rate, 1.0)
    assert recipe.data.cache_features == (kind == "probe") == (recipe.augment == Augment())
    assert (recipe.model.drop_path_rate == 0) == (kind == "probe")


@pytest.mark.broad
def test_a_probe_trains_on_features_in_one_command(photos, weights, tmp_path, capsys):
    workdir = tmp_path / "run"
    assert plan(photos, workdir, weights, "--adapt", "probe") == 0
    text = (workdir / "recipe.py").read_text()
    (workdir / "recipe.py").write_text(text.replace("epochs=50", "epochs=3"))
    assert run(photos, "--workdir", workdir, "--formats", "saved_model") == 0
    said = capsys.readouterr()
    assert "features of the images (29 train, 6 test, 6 validation) are cached" in said.out + said.err
    assert (workdir / "adapter.safetensors").is_file() and (workdir / "report" / "index.html").is_file()


@pytest.mark.broad
def test_one_command_trains_tests_exports_and_draws_and_again_does_nothing(photos, weights, tmp_path, capsys):
    workdir = tmp_path / "run"
    assert plan(photos, workdir, weights) == 0
    recipe = (workdir / "recipe.py").read_text()
    assert "epochs=50" in recipe
    (workdir / "recipe.py").write_text(recipe.replace("epochs=50", "epochs=3"))
    capsys.readouterr()
    assert run(photos, "--workdir", workdir, "--formats", "saved_model", "--json") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 3 and answers[-1]["test_examples"] == 6 and 0 <= answers[-1]["accuracy"] <= 1
    summary = json.loads((workdir / "summary.json").read_text())
    assert summary["accuracy"] == answers[-1]["accuracy"] and summary["labels"] == ["day", "night"]
    assert (workdir / "export" / "1" / "saved_model.pb").is_file() and (workdir / "report" / "index.html").is_file()
    measured = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert sum((row["split"], row["name"]) == ("test", "accuracy") for row in measured) == 1
    times = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.suffix not in ("", ".lock")}
    assert run(photos, "--workdir", workdir) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


@pytest.mark.broad
def test_more_photos_and_an_earlier_table_move_no_file(photos, weights, tmp_path):
    assert plan(photos, tmp_path / "first", weights) == 0
    first = table(tmp_path / "first")
    rng = np.random.default_rng(5)
    for i in range(20, 60):
        cells = rng.integers(0, 256, (6, 6, 3), "uint8")
        Image.fromarray(cells).resize((48, 40), Image.Resampling.BICUBIC).save(photos / "day" / f"{i}.jpg")
    shutil.move(photos / "night" / "05.jpg", photos / "night" / "renamed.jpg")
    assert plan(photos, tmp_path / "second", weights, "--splits", tmp_path / "first" / "splits.csv") == 0
    second = table(tmp_path / "second")
    assert second["night/renamed.jpg"]["split"] == first["night/05.jpg"]["split"]
    assert all(second[path]["split"] == row["split"] for path, row in first.items() if path in second)
    assert Counter(row["split"] for row in second.values() if row["label"] == "day")["test"] == 9


@pytest.mark.broad
def test_given_splits_are_kept_in_folders_and_in_tables(photos, weights, tmp_path, capsys):
    given = tmp_path / "given" / "photos"
    for split, chosen in (("train", range(4, 20)), ("val", range(2, 4)), ("test", range(2))):
        for label in LABELS:
            (given / split / label).mkdir(parents=True)
            for i in chosen:
                shutil.copy(photos / label / f"{i:02d}.jpg", given / split / label)
    shutil.copy(photos / "day" / "00.jpg", given / "train" / "day" / "leak.jpg")
    assert plan(given, tmp_path / "run", weights) == 0
    assert "the same picture in two given splits" in " ".join(capsys.readouterr().out.split())
    names = {"train": "train", "val": "validation", "test": "test"}
    rows = table(tmp_path / "run")
    assert len(rows) == 41 and all(row["split"] == names[path.split("/")[0]] for path, row in rows.items())
    file = tmp_path / "rows.csv"
    lines = [
        f"photos/{label}/{i:02d}.jpg,{label},{'test' if i < 5 else 'train'}" for label in LABELS for i in range(20)
    ]
    file.write_text("\n".join(["path,label,split", *lines]))
    assert plan(file, tmp_path / "again", weights) == 0
    counts = Counter(row["split"] for row in table(tmp_path / "again").values())
    assert counts == {"train": 26, "test": 10, "validation": 4}
    file.write_text("\n".join(["path,label", *(line.rpartition(",")[0] for line in lines)]))
    assert plan(file, tmp_path / "third", weights) == 0
    assert Counter(row["split"] for row in table(tmp_path / "third").values())["test"] == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent"], "FOLDER expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), a CSV file with the col"),
        (["absent.csv"], "FOLDER expected a CSV file with the column path, found none at"),
        (["photos", "--model", "ViT_B16"], "expected"),
        (["photos", "--model", "ViT_B99.x"], "expected"),
        (["photos", "--rank", "4"], "--adapt expected lora, adapter or vpt with --rank 4, received nothing."),
        (
            ["photos", "--adapt", "probe", "--rank", "4"],
            "--rank expected null with 'probe', which has none; lora, adapter, vpt have a rank, received 4.",
        ),
        pytest.param(
            ["photos", "--model", "resnetv2_50x1_bit.goog_in21k", "--adapt", "lora"],
            "--adapt expected 'bitfit' or 'probe' with BiT_R50x1, which has no plain Transformer blocks, received",
            marks=pytest.mark.broad,
        ),
        (["photos", "--image-size", "0"], "--image-size expected a positive int, received 0"),
        (
            ["photos", "--splits", "absent.csv"],
            "--splits expected a CSV file with the columns path, split, sha256",
        ),
        (["few"], "FOLDER expected at least 3 readable images in a class, for three splits, found 4 of 2 classes"),
        (["broken"], "FOLDER expected readable images of every class to train on, found none of night"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(arguments, sentence, photos, tmp_path, monkeypatch, capsys):
    for name, count in (("few", 2), ("broken", 9)):
        for label in LABELS:
            (tmp_path / name / label).mkdir(parents=True)
            for i in range(count):
                shutil.copy(photos / label / f"{i:02d}.jpg", tmp_path / name / label)
    for file in (tmp_path / "broken" / "night").iterdir():
        file.write_bytes(b"\xff\xd8\xff")
    monkeypatch.chdir(tmp_path)
    assert run(*arguments, "--workdir", "run") == 2
    error = capsys.readouterr().err
    assert sentence in error and not (tmp_path / "run").exists()


def test_a_folder_with_other_files_is_no_workdir(photos, weights, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("mine")
    assert plan(photos, tmp_path / "run", weights) == 2
    assert "--workdir expected a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["letter.txt"]
