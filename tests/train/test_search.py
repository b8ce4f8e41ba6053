"""Sweeps, seeds and folds: what is tried, that a stopped sweep goes on, and that no model stays in memory."""

import csv
import gc
import json
import math
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow
from train import tiny

from keras_vit import cli
from keras_vit.data.sources import open_data
from keras_vit.train.recipe import Data, Evaluate, Loss, Masked
from keras_vit.train.recipe.file import load_recipe, override, to_json
from keras_vit.train.search import runs
from keras_vit.train.search.axes import Axis, parse_axis
from keras_vit.train.search.folds import open_folds
from keras_vit.train.search.sweep import sweep

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
optuna = pytest.importorskip("optuna", reason="extra `search` is not installed")
RECIPE = replace(tiny.RECIPE, evaluate=Evaluate(split="train[95%:]"), steps=2)
RATES = "optimizer.learning_rate=1e-4,1e-3,1e-2"


class Trainer:
    """Takes the place of `train`: the score is highest at a rate of 1e-3, and depends on the seed."""

    def __init__(self, stop_before=math.inf):
        self.calls, self.stop_before = [], stop_before

    def __call__(self, recipe, workdir, data_dir=None, strategy="auto"):
        if len(self.calls) >= self.stop_before:
            raise SystemExit(130)
        self.calls.append(workdir)
        rate = recipe.optimizer.learning_rate
        if rate >= 1:
            raise FloatingPointError("loss expected a finite value")
        score = 0.9 - (math.log10(rate) + 3) ** 2 / 100 + recipe.seed / 1000 + recipe.optimizer.weight_decay / 100
        Path(workdir).mkdir(parents=True, exist_ok=True)
        values = (1, "validation", 0.95), (2, "validation", score), (2, "test", 1 - score)
        rows = [dict(zip(("step", "split", "value"), value, strict=True), name="accuracy") for value in values]
        (Path(workdir) / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"steps": 2}


@pytest.fixture
def trainer(monkeypatch):
    def use(**options):
        monkeypatch.setattr(runs, "train", found := Trainer(**options))
        return found

    return use


def test_axes_are_lists_or_ranges():
    assert parse_axis("model.patch_size=[2,4],[4,4]", RECIPE) == Axis("model.patch_size", ("[2,4]", "[4,4]"))
    assert parse_axis('augment={"shift": 0.1, "flip": true}', RECIPE).values == ('{"shift": 0.1, "flip": true}',)
    rates = parse_axis("optimizer.learning_rate=1e-5..1e-3", RECIPE)
    assert (rates.low, rates.high, rates.whole, rates.is_log) == (1e-5, 1e-3, False, True)
    assert parse_axis("epochs=1..9", RECIPE).whole and not parse_axis("model.dropout_rate=0..0.3", RECIPE).is_log


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("optimizer.learning_rte=1", "over: expected the path of a recipe's field, received 'optimizer.learning_rte'; "
         "the nearest are learning_rate, "),
        ("optimizer.learning_rate=1e-3,-1", "over: learning_rate expected a positive number, received -1"),
        ("optimizer.kind=adamw,adam", "over: kind expected one of .*, received 'adam'"),
        ("model.dropout_rate=0.5..1.5", r"over: dropout_rate expected a rate in \[0, 1\), received 1.5"),
        ("epochs=a..b", "over expected two numbers around '..' for epochs, received 'a..b'"),
        ("epochs=9..1", "over expected a rising range of epochs, received '9..1'"),
        ("epochs=1,,2", "over expected a value between two commas"),
        ("epochs=1,2,1", "over expected every value of epochs once, received '1'"),
        ("epochs", "over expected FIELD=A,B,C or FIELD=LOW..HIGH, received 'epochs'"),
        ("evaluate.split=test,train", "over expected a field of the training, received 'evaluate.split'"),
    ],
)  # fmt: skip
def test_a_wrong_axis_is_refused_by_name(over, message):
    with pytest.raises(ValueError, match=message):
        parse_axis(over, RECIPE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"over": [RATES, RATES]}, "over expected every field once"),
        ({"over": ["epochs=1..4"]}, "over expected lists of values with a grid; random and tpe search ranges"),
        ({"over": [RATES], "trials": 3}, "trials expected null with a grid"),
        ({"over": [RATES], "search": "tpe"}, "trials expected a positive int with tpe, received None"),
        ({"over": [], "search": "random", "trials": 2}, "over expected a field to search with random"),
        ({"over": ["seed=1,2"], "seeds": (1,)}, "over expected no seed with --seeds"),
        ({"over": ["seed=1..3"], "search": "random", "trials": 2}, "over expected a list of values such as seed=1,2,3"),
        ({"over": [RATES], "folds": 1}, "folds expected an int of at least 2, or 0 for none, received 1"),
        ({"over": ["augment.crop=resize,inception"]}, "crop_resize expected a size with crop 'resize'"),
    ],
)
def test_a_wrong_sweep_is_refused_before_the_first_run(arguments, message, tmp_path, trainer):
    calls = trainer().calls
    with pytest.raises(ValueError, match=message):
        sweep(RECIPE, workdir=tmp_path / "sweep", **arguments)
    assert not calls and not (tmp_path / "sweep").exists()


@pytest.mark.broad
def test_the_test_split_never_selects(tmp_path, trainer):
    trainer()
    for split in (None, RECIPE.data.test_split):
        recipe = replace(RECIPE, evaluate=Evaluate(split=split))
        with pytest.raises(ValueError, match="split expected a validation split apart from the test split.* --set "):
            sweep(recipe, [RATES], tmp_path / "sweep")
    with pytest.raises(ValueError, match="masked expected null where settings are compared"):
        sweep(replace(tiny.RECIPE, masked=Masked()), [RATES], tmp_path / "sweep")
    result = sweep(RECIPE, [RATES], tmp_path / "sweep")  # the test accuracy of `Trainer` is highest at another rate
    assert result["best_settings"] == {"optimizer.learning_rate": "1e-3"}


@pytest.mark.broad
def test_a_grid_tries_every_combination_once_and_ranks_by_the_mean(tmp_path, trainer):
    calls = trainer().calls
    over = [RATES, "optimizer.weight_decay=0,0.1"]
    result = sweep(RECIPE, over, tmp_path / "sweep", seeds=(1, 2, 4))
    assert len(calls) == len(set(calls)) == 18 and len(result["trials"]) == 6
    assert result["best_settings"] == {"optimizer.learning_rate": "1e-3", "optimizer.weight_decay": "0.1"}
    best = result["trials"][0]
    scores = [run["score"] for run in best["runs"]]
    assert scores == pytest.approx([0.902, 0.903, 0.905]) and [run["seed"] for run in best["runs"]] == [1, 2, 4]
    assert best["mean"] == pytest.approx(statistics.fmean(scores))
    assert best["deviation"] == pytest.approx(np.std(scores, ddof=1))
    means = [trial["mean"] for trial in result["trials"]]
    assert means == sorted(means, reverse=True)
    assert load_recipe(result["best_recipe"]) == override(RECIPE, ["optimizer.weight_decay=0.1", RATES[:23] + "=1e-3"])
    rows = list(csv.DictReader((tmp_path / "sweep" / "sweep.csv").read_text().splitlines()))
    assert len(rows) == 18 and rows[0]["optimizer.learning_rate"] == "1e-3" and rows[0]["seed"] == "1"
    again = sweep(RECIPE, over, tmp_path / "sweep", seeds=(1, 2, 4))
    assert again == result and len(calls) == 18


@pytest.mark.broad
@pytest.mark.parametrize(
    "arguments",
    [
        {"over": [RATES, "optimizer.weight_decay=0,0.1"]},
        {"over": ["optimizer.learning_rate=1e-5..1e-1", "epochs=1..5"], "search": "random", "trials": 4},
        {"over": ["optimizer.learning_rate=1e-5..1e-1", "seed=1,2"], "search": "tpe", "trials": 3},
        {"over": [RATES], "search": "tpe", "trials": 3},
    ],
    ids=["grid", "random", "tpe", "tpe over a list"],
)
def test_a_stopped_sweep_goes_on_to_the_same_result(arguments, tmp_path, trainer):
    whole = trainer()
    expected = sweep(RECIPE, workdir=tmp_path / "whole", **arguments)
    assert len(expected["trials"]) == arguments.get("trials", 6)
    done = []
    while True:
        part = trainer(stop_before=2)
        try:
            result = sweep(RECIPE, workdir=tmp_path / "parts", **arguments)
            break
        except SystemExit:
            done += part.calls
    done += part.calls
    same = lambda trial: {**trial, "runs": [{**run, "workdir": ""} for run in trial["runs"]]}  # noqa: E731
    assert list(map(same, result["trials"])) == list(map(same, expected["trials"]))
    assert len(set(done)) == len(whole.calls)
    # The finished runs of an interrupted setting are asked for again; the engine returns at once.
    assert len(done) == len(whole.calls) or "seed" in str(arguments)


@pytest.mark.broad
def test_more_settings_continue_a_random_search_and_other_arguments_are_refused(tmp_path, trainer):
    calls = trainer().calls
    arguments = {"over": ["optimizer.learning_rate=1e-5..1e-1"], "search": "random"}
    first = sweep(RECIPE, workdir=tmp_path / "sweep", trials=2, **arguments)
    more = sweep(RECIPE, workdir=tmp_path / "sweep", trials=4, **arguments)
    assert len(calls) == len(more["trials"]) == 4
    assert all(trial in more["trials"] for trial in first["trials"])
    with pytest.raises(ValueError, match="received .* of a sweep with another over, search"):
        sweep(RECIPE, [RATES], tmp_path / "sweep")
    with pytest.raises(ValueError, match="of a sweep with another recipe"):
        sweep(replace(RECIPE, steps=3), workdir=tmp_path / "sweep", trials=4, **arguments)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match="workdir expected a new or empty folder or one of a sweep.*'notes.txt'"):
        sweep(RECIPE, [RATES], tmp_path / "other")


def test_a_setting_that_diverges_is_a_row_and_no_end(tmp_path, trainer):
    calls = trainer().calls
    result = sweep(RECIPE, ["optimizer.learning_rate=2,1e-3"], tmp_path / "sweep", seeds=(1, 2))
    assert [trial["mean"] is None for trial in result["trials"]] == [False, True] and len(calls) == 3
    assert sweep(RECIPE, ["optimizer.learning_rate=2,1e-3"], tmp_path / "sweep", seeds=(1, 2)) == result
    assert len(calls) == 3


@pytest.mark.broad
def test_the_verb_prints_a_table_and_writes_a_plot(tmp_path, trainer, capsys):
    pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
    trainer()
    (tmp_path / "recipe.json").write_text(to_json(RECIPE))
    command = ["sweep", str(tmp_path / "recipe.json"), "--over", RATES, "--over", "seed=0,10", "--workdir"]
    assert cli.main([*command, str(tmp_path / "sweep")]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].split() == ["trial", "optimizer.learning_rate", "validation", "accuracy", "runs"]
    assert lines[1].split() == ["1", "1e-3", "90.60", "±", "0.71", "%", "2"]
    assert lines[-2].startswith("best: optimizer.learning_rate=1e-3, in ")
    assert f"next: keras-vit train {tmp_path}/sweep/best_recipe.json --workdir {tmp_path}/sweep/best" in said.err
    with Image.open(tmp_path / "sweep" / "sweep.png") as drawn:
        assert drawn.size[0] > 300
    assert cli.main([*command, str(tmp_path / "sweep"), "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads((tmp_path / "sweep" / "sweep.json").read_text()) and not said.err
    assert cli.main([*command[:4], "--workdir", str(tmp_path / "one")]) == 0
    assert f"next: keras-vit evaluate {tmp_path}/one/trial-001" in capsys.readouterr().err


def test_without_optuna_the_sentence_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ImportError, match=r"sweep expected Optuna, found none: pip install 'keras-vit-zoo\[search\]'"):
        sweep(RECIPE, [RATES], tmp_path / "sweep")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of three classes: 12 images and 3 copies in another size of `cat`, 12 of `dog`, and 6 of `bird`."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for split, counts in (("train", {"cat": 12, "dog": 12, "bird": 6}), ("test", {"cat": 2, "dog": 2, "bird": 2})):
        for label, count in counts.items():
            (folder / split / label).mkdir(parents=True)
            for i in range(count):
                image = Image.fromarray(rng.integers(0, 256, (4, 4, 3), "uint8"))
                image = image.resize((32, 32), Image.Resampling.BICUBIC)
                image.save(folder / split / label / f"{i:02d}.png")
                if split == "train" and label == "cat" and i < 3:
                    image.resize((48, 48), Image.Resampling.BICUBIC).save(folder / split / label / f"{i:02d}-large.png")
    return folder


def test_folds_are_stratified_and_near_duplicates_stay_together(photos, tmp_path):
    recipe = replace(RECIPE, data=Data("folder", directory=str(photos), batch_size=4), evaluate=Evaluate())
    folds = open_folds(recipe, None, tmp_path, 3)
    held = []
    for fold in folds:
        train, validation, test = (open_data(fold.data, split) for split in ("train", fold.evaluate.split, "test"))
        assert not set(train.files) & set(validation.files) and train.count + validation.count == 33
        counts = Counter(Path(file).parent.name for file in validation.files)
        assert counts["dog"] == 4 and counts["bird"] == 2 and 4 <= counts["cat"] <= 6
        assert {Path(file) for file in test.files} == set((photos / "test").rglob("*.png"))
        held.append({Path(file).name for file in validation.files if "cat" in file})
    assert sum(map(len, held)) == 15
    for i in range(3):
        assert sum({f"{i:02d}.png", f"{i:02d}-large.png"} <= names for names in held) == 1
    before = {file: file.read_bytes() for file in tmp_path.glob("*.csv")}
    assert open_folds(recipe, None, tmp_path, 3) == folds and len(before) == 3
    with pytest.raises(ValueError, match="folds expected at most 6, .* received 7; class 'bird' has 6 images"):
        open_folds(recipe, None, tmp_path / "many", 7)


def test_folds_of_arrays_cover_the_training_and_the_validation_split(tmp_path):
    folds = open_folds(RECIPE, None, tmp_path, 2)  # the digits
    seen = []
    for fold in folds:
        train, validation, test = (open_data(fold.data, split) for split in ("train", "validation", "test"))
        seen.append(validation.count)
        whole = [open_data(RECIPE.data, split) for split in ("train[:5%]", "train[95%:]")]
        assert train.count + validation.count == sum(part.count for part in whole)
        assert test.count == 72 and validation.labels == whole[0].labels == train.labels
    assert abs(seen[0] - seen[1]) <= 2
    with pytest.raises(ValueError, match="folds expected data of the source .*, received 'tfds:mnist'"):
        open_folds(replace(RECIPE, data=Data("tfds:mnist")), None, tmp_path, 2)


def table_of(folder, columns, row_of):
    """A CSV file about 24 different pictures, of which the last four are for testing."""
    rng = np.random.default_rng(0)
    lines = [f"path,{columns},split"]
    for i in range(24):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), "uint8")).resize((32, 32)).save(folder / f"{i:02d}.png")
        lines.append(f"{i:02d}.png,{row_of(i)},{'train' if i < 20 else 'test'}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "rows.csv")


@pytest.mark.broad
def test_folds_of_a_regression_and_of_several_labels(tmp_path):
    numbers = table_of(tmp_path, "age", lambda i: 20.1 + 3 * i)
    data = Data("csv", directory=numbers, targets="numbers", columns=("age",), batch_size=4)
    regression = replace(RECIPE, data=data, loss=Loss("huber"), evaluate=Evaluate())
    held = []
    for fold in open_folds(regression, None, tmp_path / "numbers", 2):
        train, validation = (open_data(fold.data, split) for split in ("train", fold.evaluate.split))
        assert train.kind == "numbers" and train.labels == ("age",) and train.count + validation.count == 20
        held.append(sorted(validation.targets[:, 0].tolist()))
    assert sum(held, []) != sorted(sum(held, [])) and len(sum(held, [])) == 20
    assert all(sum(age < 50 for age in fold) == 5 for fold in held)  # stratified by the values
    several = table_of(tmp_path, "labels", lambda i: ("a;b", "b", "", "a;c")[i % 4])
    data = Data("csv", directory=several, batch_size=4)
    recipe = replace(RECIPE, data=data, loss=Loss("sigmoid"), evaluate=Evaluate())
    for fold in open_folds(recipe, None, tmp_path / "several", 2):
        train, validation = (open_data(fold.data, split) for split in ("train", "validation"))
        assert train.multi and train.labels == ("a", "b", "c")
        assert validation.targets.sum(axis=0).min() >= 2 and train.count + validation.count == 20


@pytest.mark.broad
def test_a_sweep_of_a_regression_selects_the_lowest_loss(tmp_path, monkeypatch, capsys):
    losses = iter([0.5, math.nan, 0.25, 0.75, 0.25])

    def train(recipe, workdir, data_dir=None, strategy="auto"):
        Path(workdir).mkdir(parents=True)
        row = {"step": 2, "split": "validation", "name": "loss", "value": next(losses)}
        (Path(workdir) / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        return {"steps": 2}

    monkeypatch.setattr(runs, "train", train)
    data = Data("csv", directory="rows.csv", targets="numbers", columns=("age",))
    recipe = replace(RECIPE, data=data, loss=Loss("huber"), evaluate=Evaluate(split="validation"))
    (tmp_path / "recipe.json").write_text(to_json(recipe))
    command = ["sweep", str(tmp_path / "recipe.json"), "--over", "optimizer.learning_rate=1e-4,1e-3,1e-2,1e-1,2e-1"]
    assert cli.main([*command, "--workdir", str(tmp_path / "sweep")]) == 0
    result = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert [trial["mean"] for trial in result["trials"]] == [0.25, 0.25, 0.5, 0.75, None] and result["lower_is_better"]
    said = capsys.readouterr()
    assert "validation loss" in said.out.splitlines()[0] and "0.25" in said.out.splitlines()[1].split()
    assert "best: optimizer.learning_rate=1e-2, the first of 2 settings with this score, in" in said.out
    assert "diverged" in said.out and "trial 0: optimizer.learning_rate=1e-4: validation loss 0.5" in said.err
    with pytest.raises(
        ValueError, match="over expected settings with the same validation loss, received the loss 'l1'"
    ):
        sweep(recipe, ["loss.kind=huber,l1"], tmp_path / "other")


def test_cross_validation_states_mean_and_deviation(tmp_path, trainer, capsys):
    calls = trainer().calls
    (tmp_path / "recipe.json").write_text(to_json(replace(RECIPE, evaluate=Evaluate())))
    command = ["cross-validate", str(tmp_path / "recipe.json"), "--folds", "2", "--workdir", str(tmp_path / "folds")]
    assert cli.main([*command, "--seeds", "0,10", "--set", "optimizer.learning_rate=1e-3"]) == 0
    said = capsys.readouterr()
    assert "validation accuracy 90.60 ± 0.58 %, mean and standard deviation of 4 runs" in said.out
    assert len(calls) == 4 and "--set optimizer.learning_rate=1e-3" in said.err
    assert cli.main([*command[:3], "1", *command[4:]]) == 2
    assert "--folds expected an int of at least 2, received 1" in capsys.readouterr().err


def alive():
    """Return the numbers of Keras models, and of traced TensorFlow functions and their graphs, in memory."""
    gc.collect()
    items = gc.get_objects()
    traced = sum(type(item).__name__.endswith(("ConcreteFunction", "FuncGraph")) for item in items)
    return sum(issubclass(type(item), keras.Model) for item in items), traced


@pytest.mark.broad
@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.large)])
def test_the_runs_of_a_sweep_leave_no_model_in_memory(count, tmp_path):
    """Not the time and not the size of the process, but the objects are counted."""
    over = [f"seed={','.join(map(str, range(count)))}"]
    seen, train = [], runs.train

    def counting(*arguments):
        seen.append(alive())
        return train(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "train", counting)
        result = sweep(RECIPE, over, tmp_path / "sweep")
    seen.append(alive())
    models, traced = zip(*seen, strict=True)
    assert len(result["trials"][0]["runs"]) == count and result["trials"][0]["deviation"] is not None
    assert models[-1] == models[1] and traced[-1] == traced[1], (models, traced)
    run = json.loads((tmp_path / "sweep" / "trial-000" / "seed-1" / "recipe.json").read_text())
    assert run["seed"] == 1
