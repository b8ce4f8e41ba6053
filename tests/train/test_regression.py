"""A regression from the table to predictions in units, an export, `keras-vit evaluate` and a report."""

import csv
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import needs_tensorflow

from keras_vit.cli import main
from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.evaluate.regression import metrics_of_sums, regression_losses
from keras_vit.export import export
from keras_vit.predict import load_predictor, predict
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.datasets import Datasets
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Augment, Checkpoint, Data, Evaluate, Loss, Model, Optimizer, Recipe, Variant
from keras_vit.train.recipe.file import from_json, to_json

pytestmark = needs_tensorflow
metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
ROW = Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "age",
    Model(ROW),
    Data("csv", batch_size=16, targets="numbers", columns=("age", "weight")),
    Augment(flip=True, mixup=0.1),
    optimizer=Optimizer("adamw", learning_rate=1e-2),
    loss=Loss("huber", huber_delta=1.5),
    evaluate=Evaluate(every=2, split="validation", patience=9),
    checkpoint=Checkpoint(seconds=0, best=True, use_best=True),
    epochs=8,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Pictures whose brightness gives an age around 40, and whose left half gives a weight around 1,000."""
    folder, rng = tmp_path_factory.mktemp("ages"), np.random.default_rng(0)
    rows = ["path,split,note,age,weight"]
    for i in range(144):
        left, right = rng.uniform(40, 220, 2)
        pixels = rng.normal(0, 10, (8, 8, 3)) + np.repeat([left, right], 4)[None, :, None]
        Image.fromarray(np.clip(pixels, 0, 255).astype("uint8")).save(folder / f"{i:03d}.png")
        split = "train" if i < 80 else "validation" if i < 112 else "test"
        rows.append(f"{i:03d}.png,{split},,{(left + right) / 6.5:.3f},{900 + left:.2f}")
    (folder / "ages.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "ages.csv")


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run") / "run"
    return workdir, train(RECIPE, workdir, table)


def split_of(table, split):
    """The paths and the values (N, 2) of a split."""
    with Path(table).open() as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split]
    values = np.array([[float(row[name]) for name in RECIPE.data.columns] for row in rows])
    return [str(Path(table).parent / row["path"]) for row in rows], values


def predicted(model, paths):
    images = np.stack([np.asarray(Image.open(path), "float32") for path in paths])
    return np.asarray(model(images / 127.5 - 1.0))


def test_the_summary_is_what_scikit_learn_finds_in_units(run, table):
    workdir, summary = run
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    paths, values = split_of(table, "test")
    found = predicted(model, paths)
    for i, name in enumerate(RECIPE.data.columns):
        pair = values[:, i], found[:, i]
        assert summary[f"mae_{name}"] == pytest.approx(metrics.mean_absolute_error(*pair), rel=1e-5)
        assert summary[f"rmse_{name}"] == pytest.approx(metrics.root_mean_squared_error(*pair), rel=1e-5)
        assert summary[f"r2_{name}"] == pytest.approx(metrics.r2_score(*pair), abs=1e-5)
    assert summary["r2"] == pytest.approx(metrics.r2_score(values, found), abs=1e-5) and summary["r2"] > 0.5
    assert (
        summary["mae_age"] < 5 and "accuracy" not in summary
    )  # the deviation is 11 and summary["labels"] == ["age", "weight"]


def test_the_head_keeps_the_scale_of_the_training_split_and_begins_at_its_mean(run, table):
    workdir, _ = run
    head = keras.saving.load_model(workdir / "model.keras", compile=False).get_layer("head")
    _, values = split_of(table, "train")
    np.testing.assert_allclose(head.mean, values.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(head.deviation, values.std(axis=0), rtol=1e-6)
    from keras_vit.train.state import first_state

    data = Datasets.open(RECIPE, table)
    state = first_state(RECIPE, data.train.labels, data.steps, tf.distribute.get_strategy(), data.terms)
    np.testing.assert_allclose(state.model(np.zeros((1, 8, 8, 3)))[0], values.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["mse", "l1", "huber"])
def test_losses_are_those_of_torch_in_standard_deviations(kind):
    torch = pytest.importorskip("torch", reason="the other implementation")
    rng = np.random.default_rng(0)
    values, outputs = rng.normal(50, 20, (2, 9, 3)).astype("float32")
    deviation = np.array([20.0, 3.0, 0.5], "float32")
    loss = Loss(kind, huber_delta=0.7) if kind == "huber" else Loss(kind)
    own = {"mse": torch.nn.MSELoss(reduction="none"), "l1": torch.nn.L1Loss(reduction="none"),
           "huber": torch.nn.HuberLoss(reduction="none", delta=0.7)}[kind]  # fmt: skip
    expected = own(torch.tensor(outputs / deviation), torch.tensor(values / deviation)).mean(1)
    np.testing.assert_allclose(regression_losses(loss, values, outputs, deviation), expected, rtol=2e-5)


def test_large_means_and_one_value_give_figures_that_are_exact_or_unknown():
    values = 1e6 + np.random.default_rng(0).normal(0, 1, (50, 1))
    errors = np.linspace(-1, 1, 50)[:, None]
    z = values - 1e6
    total = np.concatenate([[0.0, 50.0], np.abs(errors).sum(0), (errors**2).sum(0), z.sum(0), (z**2).sum(0)])
    found = metrics_of_sums(total, ("age",), [1.0])
    assert found["r2"] == pytest.approx(metrics.r2_score(values, values + errors), abs=1e-9)
    assert set(found) == {"loss", "mae", "rmse", "r2", "examples"} and found["examples"] == 50
    constant = metrics_of_sums(np.array([0.0, 50.0, 5.0, 1.0, 0.0, 0.0]), ("age",), [1.0])
    assert np.isnan(constant["r2"]) and constant["mae"] == 0.1
    assert np.isnan(metrics_of_sums(np.array([np.nan, 50.0, 5.0, 1.0, 0.0, 0.0]), ("age",), [1.0])["mae"])


def test_the_best_weights_have_the_lowest_validation_loss(run, table):
    workdir, summary = run
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    losses = {row["step"]: row["value"] for row in rows if (row["split"], row["name"]) == ("validation", "loss")}
    best = keras.saving.load_model(workdir / "best.keras", compile=False)
    found = evaluate_model(best, RECIPE.data, table, RECIPE.loss, split="validation")
    assert found["loss"] == pytest.approx(min(losses.values()), rel=1e-5) and len(losses) == 4


@pytest.mark.broad
def test_an_evaluation_has_the_figures_of_the_run(run, table, capsys):
    workdir, summary = run
    found = evaluate_model(load_predictor(workdir), RECIPE.data, table, RECIPE.loss)
    for name in ("loss", "r2", "mae_age", "rmse_weight"):
        assert found[name] == pytest.approx(summary[name], rel=1e-5)
    assert main(["evaluate", str(workdir), "--data-dir", table]) == 0
    assert f"mae age {summary['mae_age']:.4g}, rmse age" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"data expected the model's targets \(age, weight\), found weight"):
        evaluate_model(load_predictor(workdir), replace(RECIPE.data, columns=("weight",)), table, RECIPE.loss)
    with pytest.raises(ValueError, match="flip expected False with a regression"):
        evaluate_model(load_predictor(workdir), RECIPE.data, table, RECIPE.loss, flip=True)


@pytest.mark.broad
def test_labelled_images_write_results_with_intervals_and_a_page(run, table, tmp_path, capsys):
    workdir, summary = run
    for data in (table, "split"):
        output = tmp_path / Path(data).stem
        assert main(["evaluate", str(workdir), "--data", data, "--output", str(output), "--data-dir", table]) == 0
        results = json.loads((output / "results.json").read_text())
        age = next(row for row in results["targets"] if row["target"] == "age")
        assert age["mae"]["value"] == pytest.approx(summary["mae_age"], rel=1e-4)
        assert age["mae"]["low"] < age["mae"]["value"] < age["mae"]["high"] and results["images"] == 32
        assert "The largest errors" in (output / "report.html").read_text()
    assert "MAE" in capsys.readouterr().out
    assert main(["evaluate", str(workdir), "--data", table, "--output", str(tmp_path), "--validation", table]) == 2
    assert "--validation expected a classifier, received a regression of age, weight" in capsys.readouterr().err
    assert main(["export", str(workdir), "--output", str(tmp_path / "export"), "--formats", "saved_model",
                 "--results", str(tmp_path / "split" / "results.json"), "--data-dir", table]) == 0  # fmt: skip
    card = (tmp_path / "export" / "1" / "model_card.md").read_text()
    assert "regression of age, weight" in card and f"| mae_age on the test split, after training | {summary['mae_age']:.4g} | 32 |" in card  # noqa: E501 # fmt: skip


@pytest.mark.broad
def test_predictions_and_an_export_answer_in_units_by_name(run, table, tmp_path, capsys):
    workdir, _ = run
    model = load_predictor(workdir)
    paths, _ = split_of(table, "test")
    expected, found = predicted(model, paths), predict(model, paths)
    assert [[entry["target"] for entry in row["predictions"]] for row in found] == [["age", "weight"]] * len(paths)
    values = np.array([[entry["value"] for entry in row["predictions"]] for row in found])
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    export(model, tmp_path / "export", formats=("saved_model", "tflite"))
    for source in (tmp_path / "export", tmp_path / "export" / "1" / "model.tflite"):
        exported = load_predictor(source)
        assert exported.interface.targets == ("age", "weight") and exported.interface.classes is None
        rows = predict(exported, paths)
        other = np.array([[entry["value"] for entry in row["predictions"]] for row in rows])
        np.testing.assert_allclose(other, expected, rtol=1e-4)
    signature = load_predictor(tmp_path / "export").signatures["regress_bytes"]
    answer = signature(image_bytes=tf.constant([Path(paths[0]).read_bytes(), b"no image"]))
    np.testing.assert_allclose(answer["values"][0], expected[0], rtol=1e-4)
    assert answer["targets"][0].numpy().tolist() == [b"age", b"weight"] and answer["error"][1].numpy()
    assert main(["predict", str(workdir), *paths[:2], "--output", str(tmp_path / "found.csv")]) == 0
    header, first, _ = (tmp_path / "found.csv").read_text().splitlines()
    assert header == "image,age,weight,error" and float(first.split(",")[1]) == pytest.approx(expected[0, 0], rel=1e-4)
    capsys.readouterr()
    assert main(["predict", str(workdir), paths[0]]) == 0
    assert f"age {expected[0, 0]:.4g}, weight {expected[0, 1]:.4g}" in capsys.readouterr().out
    with pytest.raises(ValueError, match="labels expected None with a regression of age, weight"):
        predict(model, paths, labels=["a", "b"])


@pytest.mark.broad
def test_the_report_draws_predicted_over_true_values(run, table, tmp_path):
    workdir, summary = run
    arguments = ["analyze", str(workdir), "--output", str(tmp_path / "report"), "--data-dir", table]
    assert main([*arguments, "--parts", "figure7"]) == 0
    analysis = json.loads((tmp_path / "report" / "analysis.json").read_text())
    ages = analysis["values"]["targets"][0]
    assert ages["mae"] == pytest.approx(summary["mae_age"], rel=1e-4) and analysis["values"]["images"] == 32
    assert ages["r2"] == pytest.approx(summary["r2_age"], abs=1e-4)
    assert "Predicted and true values" in (tmp_path / "report" / "index.html").read_text()
    assert (tmp_path / "report" / "values.png").stat().st_size > 5000


@pytest.mark.broad
def test_stopped_and_gone_on_is_equal_to_the_bit(run, table, tmp_path, monkeypatch):
    workdir, summary = run
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr("keras_vit.train.engine.CALL_SECONDS", 0.0)
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(SystemExit):
            train(RECIPE, tmp_path / "run", table)
    assert train(RECIPE, tmp_path / "run", table)["loss"] == summary["loss"]


def test_a_recipe_is_kept_as_json_and_its_dry_run_is_finite():
    assert from_json(to_json(RECIPE)) == RECIPE
    result = dry_run(RECIPE)
    assert np.isfinite(result["losses"]).all() and result["accuracy"] is None
