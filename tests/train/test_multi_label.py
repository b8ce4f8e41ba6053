"""A run with several labels per image, from the table to predictions, an export and `keras-vit evaluate`."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, run_python
from train.test_step import TWO_CPUS

from keras_vit.cli import main
from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.export import export
from keras_vit.predict import load_predictor, predict
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Checkpoint, Data, Evaluate, Loss, Model, Optimizer, Recipe, Variant

pytestmark = needs_tensorflow
metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
ROW = Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=8)
LABELS = ("left", "right", "top")
RECIPE = Recipe(
    "several",
    Model(ROW),
    Data("csv", batch_size=16),
    optimizer=Optimizer("adamw", learning_rate=1e-2),
    loss=Loss("sigmoid", class_weights="balanced"),
    evaluate=Evaluate(every=3, split="validation", metrics=("accuracy", "mean_average_precision")),
    checkpoint=Checkpoint(seconds=0, best=True),
    epochs=6,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Pictures whose left, right or top half is bright, several at once or none."""
    folder, rng = tmp_path_factory.mktemp("several"), np.random.default_rng(0)
    rows = ["path,split," + ",".join(LABELS)]
    for i in range(144):
        hot = rng.uniform(size=3) < [0.5, 0.4, 0.15]
        pixels = rng.integers(0, 130, (8, 8, 3))
        pixels[:, :4] += 60 * hot[0]
        pixels[:, 4:] += 60 * hot[1]
        pixels[:3] += 60 * hot[2]
        Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:03d}.png")
        split = "train" if i < 80 else "validation" if i < 112 else "test"
        rows.append(f"{i:03d}.png,{split}," + ",".join(str(int(x)) for x in hot))
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "labels.csv")


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run") / "run"
    return workdir, train(RECIPE, workdir, table)


def split_of(table, split):
    """The paths and the labels (N, 3) of a split."""
    folder = table.rsplit("/", 1)[0]
    lines = [line.split(",") for line in Path(table).read_text().split()[1:]]
    rows = [line for line in lines if line[1] == split]
    return [f"{folder}/{row[0]}" for row in rows], np.array([[int(x) for x in row[2:]] for row in rows])


def probabilities(model, paths):
    images = np.stack([np.asarray(Image.open(path), "float32") for path in paths])
    return np.asarray(model(images / 127.5 - 1.0))


@pytest.mark.broad
def test_the_summary_is_what_scikit_learn_finds(run, table):
    workdir, summary = run
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    paths, hot = split_of(table, "test")
    scores = probabilities(model, paths)
    assert summary["mean_average_precision"] == pytest.approx(metrics.average_precision_score(hot, scores), abs=1e-6)
    assert 0.6 < summary["mean_average_precision"] <= 1  # by chance 0.35
    called = scores >= np.array(summary["thresholds"])
    assert summary["f1"] == pytest.approx(metrics.f1_score(hot, called, average="macro"), abs=1e-6)
    assert summary["micro_f1"] == pytest.approx(metrics.f1_score(hot, called, average="micro"), abs=1e-6)
    assert (~hot.any(axis=1)).any()  # images without a label count in all of these


@pytest.mark.broad
def test_thresholds_are_the_best_of_the_validation_split_and_saved_with_the_model(run, table):
    workdir, summary = run
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    assert list(model.get_layer("head").thresholds) == summary["thresholds"]
    paths, hot = split_of(table, "validation")
    scores = probabilities(model, paths)
    for i, threshold in enumerate(summary["thresholds"]):
        precision, recall, _ = metrics.precision_recall_curve(hot[:, i], scores[:, i])
        best = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-9))
        assert metrics.f1_score(hot[:, i], scores[:, i] >= threshold) == pytest.approx(best)
    assert keras.saving.load_model(workdir / "best.keras", compile=False).get_layer("head").thresholds is not None


@pytest.mark.broad
def test_an_evaluation_has_the_figures_of_the_run(run, table, capsys):
    workdir, summary = run
    found = evaluate_model(load_predictor(workdir), RECIPE.data, table, RECIPE.loss)
    for name in ("accuracy", "loss", "mean_average_precision", "f1", "micro_f1"):
        assert found[name] == pytest.approx(summary[name], abs=1e-6)
    assert main(["evaluate", str(workdir), "--data-dir", table]) == 0
    assert f"mean average precision {summary['mean_average_precision']:.2%}, f1 " in capsys.readouterr().out


@pytest.mark.broad
def test_a_prediction_is_all_labels_above_their_thresholds_and_an_export_has_them(run, table, tmp_path, capsys):
    workdir, summary = run
    model = load_predictor(workdir)
    paths, _ = split_of(table, "test")
    scores = probabilities(model, paths)
    found = predict(model, paths, top=1)
    counts = {len(row["predictions"]) for row in found}
    for row, own in zip(found, scores, strict=True):
        expected = {LABELS[i] for i in range(3) if own[i] >= summary["thresholds"][i]}
        assert {entry["label"] for entry in row["predictions"]} == expected
        assert row["predictions"] == sorted(row["predictions"], key=lambda entry: -entry["score"])
    assert counts >= {0, 1, 2}
    folder = tmp_path / "export"
    export(model, folder, formats=("saved_model",))
    exported = load_predictor(folder)
    assert list(exported.interface.thresholds) == summary["thresholds"]
    labels = [
        [[entry["label"] for entry in row["predictions"]] for row in rows] for rows in (predict(exported, paths), found)
    ]
    assert labels[0] == labels[1]
    empty = next(row["image"] for row in found if not row["predictions"])
    capsys.readouterr()
    assert main(["predict", str(workdir), empty, "--output", str(tmp_path / "found.csv")]) == 0
    assert (tmp_path / "found.csv").read_text().splitlines()[0] == "image," + ",".join(
        f"label_{i},score_{i}" for i in (1, 2, 3)) + ",error"  # fmt: skip
    assert main(["predict", str(workdir), empty]) == 0 and ": no label" in capsys.readouterr().out


@pytest.mark.broad
def test_stopped_after_its_last_validation_it_goes_on_to_the_same_thresholds(run, table, tmp_path, monkeypatch):
    workdir, summary = run
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == summary["steps"]:
            os.kill(os.getpid(), signal.SIGTERM)
            raise KeyboardInterrupt  # before the summary is written

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(KeyboardInterrupt):
            train(RECIPE, tmp_path / "run", table)
    assert not (tmp_path / "run" / "summary.json").exists()
    again = train(RECIPE, tmp_path / "run", table)
    for name in ("thresholds", "mean_average_precision", "f1", "micro_f1", "loss"):
        assert again[name] == summary[name]
    models = [keras.saving.load_model(path / "model.keras", compile=False) for path in (workdir, tmp_path / "run")]
    assert all(np.array_equal(a, b) for a, b in zip(*(model.get_weights() for model in models), strict=True))


@pytest.mark.broad
def test_without_a_validation_split_the_thresholds_are_a_half(table, tmp_path):
    recipe = replace(RECIPE, evaluate=replace(RECIPE.evaluate, split=None), epochs=1, checkpoint=Checkpoint())
    assert train(recipe, tmp_path / "run", table)["thresholds"] == [0.5] * 3


@pytest.mark.broad
def test_what_does_not_fit_is_refused(table, tmp_path):
    one = replace(RECIPE, data=Data("digits"), evaluate=replace(RECIPE.evaluate, split=None))
    with pytest.raises(ValueError, match="metrics expected no 'mean_average_precision' with one class per image"):
        train(replace(one, model=replace(RECIPE.model, channels=1)), tmp_path / "run")
    with pytest.raises(ValueError, match="metrics expected no 'mean_average_precision' with the softmax loss, .* fit,"):
        train(replace(RECIPE, loss=Loss()), tmp_path / "run", table)
    balanced = replace(RECIPE, data=replace(RECIPE.data, sampling="balanced"), loss=Loss("sigmoid"))
    with pytest.raises(ValueError, match="sampling expected 'uniform' with several classes per image"):
        train(balanced, tmp_path / "run", table)
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.json"))
    assert np.isfinite(dry_run(RECIPE)["losses"]).all()


MIRRORED = """
import keras_vit
from keras_vit.train.datasets import Datasets
from keras_vit.train.measure import Measure
from keras_vit.train.strategy import choose
from train.test_multi_label import *

values, found = None, []
for name in ("one", "mirrored"):
    devices, data = choose(name, 16), Datasets.open(RECIPE, TABLE)
    with devices.strategy.scope():
        model = keras_vit.build(ROW, classes=3, classifier_activation="sigmoid", labels=LABELS)
    values = values or [np.random.default_rng(0).normal(0, 0.3, weight.shape) for weight in model.weights]
    model.set_weights(values)
    measure = Measure(RECIPE, model, data, devices)
    result = measure("validation") | {"test " + key: value for key, value in measure("test").items()}
    found.append(list(result.values()) + list(model.get_layer("head").thresholds))
print(len(found[0]), np.allclose(*found, rtol=1e-5, atol=0))
"""


@pytest.mark.large
def test_two_replicas_measure_what_one_device_measures(table):
    assert run_python(TWO_CPUS + f"TABLE = {table!r}\n" + MIRRORED).strip().endswith("15 True")
