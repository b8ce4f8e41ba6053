"""Ordered classes: the head and the loss of CORN, its metrics, and a run."""

import json
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
from keras_vit.evaluate.losses import example_losses
from keras_vit.evaluate.ordinal import rank_metrics
from keras_vit.evaluate.temperature import set_temperature
from keras_vit.export import export
from keras_vit.layers import OrdinalHead
from keras_vit.predict import load_predictor, predict
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Checkpoint, Data, Evaluate, Loss, Model, Optimizer, Recipe, Variant

pytestmark = needs_tensorflow
metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
CLASSES = ("poor", "fair", "good", "best")  # another order than the alphabet's
ROW = Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "grades",
    Model(ROW),
    Data("csv", batch_size=16, classes=CLASSES),
    optimizer=Optimizer("adamw", learning_rate=1e-2),
    loss=Loss("ordinal"),
    evaluate=Evaluate(every=4, split="validation", metrics=("accuracy", "calibration")),
    checkpoint=Checkpoint(best=True, use_best=True),
    epochs=8,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Pictures whose brightness is their grade."""
    folder, rng = tmp_path_factory.mktemp("grades"), np.random.default_rng(0)
    rows = ["path,label,split"]
    for i in range(144):
        grade = i % 4
        pixels = rng.normal(50 + 45 * grade, 45, (8, 8, 3)) + rng.normal(0, 15)
        Image.fromarray(np.clip(pixels, 0, 255).astype("uint8")).save(folder / f"{i:03d}.png")
        rows.append(f"{i:03d}.png,{CLASSES[grade]},{'train' if i < 80 else 'validation' if i < 112 else 'test'}")
    (folder / "grades.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "grades.csv")


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run") / "run"
    return workdir, train(RECIPE, workdir, table)


def head_with(weights, classes=4):
    head = OrdinalHead(classes - 1)
    head.build((None, weights.shape[0]))
    head.kernel.assign(weights)
    return head


@pytest.mark.broad
def test_the_loss_is_the_one_of_the_paper_by_torch():
    """`corn_loss` of the paper's appendix: a binary cross entropy on the images of each conditional training subset."""
    torch = pytest.importorskip("torch", reason="the other implementation")
    rng = np.random.default_rng(0)
    weights, inputs = rng.normal(0, 1, (6, 3)).astype("float32"), rng.normal(0, 1, (20, 6)).astype("float32")
    labels = rng.integers(0, 4, 20)
    logits = torch.tensor(inputs @ weights)
    total = 0.0
    for task in range(3):
        subset = torch.tensor(labels > task - 1)
        own = torch.tensor(labels[subset.numpy()] > task).float()
        total += torch.nn.functional.binary_cross_entropy_with_logits(logits[subset, task], own, reduction="sum")
    found = example_losses(Loss("ordinal"), tf.one_hot(labels, 4), head_with(weights)(inputs))
    assert float(tf.reduce_sum(found)) == pytest.approx(float(total), rel=1e-5)
    higher = torch.cumprod(torch.sigmoid(logits), dim=1).numpy()  # of the paper's equation 5
    shares = tf.nn.softmax(head_with(weights)(inputs)).numpy()
    np.testing.assert_allclose(1 - np.cumsum(shares, axis=1)[:, :-1], higher, atol=1e-6)


@pytest.mark.broad
def test_extreme_logits_stay_finite():
    outputs = head_with(np.array([[200.0, -200.0]], "float32"), 3)(np.array([[1.0], [-1.0]], "float32"))
    losses = example_losses(Loss("ordinal"), tf.one_hot([1, 2], 3), outputs)
    assert np.isfinite(outputs).all() and losses.numpy().tolist() == pytest.approx([0.0, 200.0], abs=1e-4)


@pytest.mark.broad
def test_rank_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    true, predicted = rng.integers(0, 5, (2, 200))
    found = rank_metrics(metrics.confusion_matrix(true, predicted, labels=range(5)))
    assert found["rank_error"] == pytest.approx(metrics.mean_absolute_error(true, predicted))
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(true, predicted, weights="quadratic"))
    assert np.isnan(rank_metrics(np.diag([3, 0]))["kappa"])


@pytest.mark.broad
def test_a_run_reports_ranks_and_selects_by_kappa(run, table, capsys):
    workdir, summary = run
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    assert summary["labels"] == list(CLASSES) and model.get_layer("head").labels == CLASSES
    assert model.get_layer("head").kernel.shape[-1] == 3 and model.output_shape[-1] == 4
    folder, rows = table.rsplit("/", 1)[0], [line.split(",") for line in Path(table).read_text().split()[1:]]
    rows = [row for row in rows if row[2] == "test"]
    images = np.stack([np.asarray(Image.open(f"{folder}/{row[0]}"), "float32") for row in rows])
    found, true = np.asarray(model(images / 127.5 - 1.0)).argmax(1), [CLASSES.index(row[1]) for row in rows]
    assert summary["accuracy"] == pytest.approx(metrics.accuracy_score(true, found))
    assert summary["rank_error"] == pytest.approx(metrics.mean_absolute_error(true, found))
    kappa = metrics.cohen_kappa_score(true, found, weights="quadratic")
    assert summary["kappa"] == pytest.approx(kappa) and kappa > 0.6
    again = evaluate_model(model, RECIPE.data, table, RECIPE.loss)
    assert again["kappa"] == pytest.approx(kappa) and again["loss"] == pytest.approx(summary["loss"], rel=1e-5)
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    kappas = [row["value"] for row in rows if (row["split"], row["name"]) == ("validation", "kappa")]
    best = evaluate_model(load_predictor(workdir / "best.keras"), RECIPE.data, table, RECIPE.loss, "validation")
    assert best["kappa"] == pytest.approx(max(kappas)) and len(kappas) == 2
    assert main(["evaluate", str(workdir), "--data-dir", table]) == 0
    assert f"rank error {summary['rank_error']:.4g}, kappa {kappa:.4g}" in capsys.readouterr().out


@pytest.mark.broad
def test_predictions_exports_and_labelled_images_name_the_classes(run, table, tmp_path, capsys):
    workdir, summary = run
    model, path = load_predictor(workdir), f"{table.rsplit('/', 1)[0]}/143.png"
    export(model, tmp_path / "export", formats=("saved_model", "tflite"))
    exported = load_predictor(tmp_path / "export")
    assert exported.interface.ordered and exported.interface.labels == CLASSES
    rows = [predict(each, [path], top=4)[0]["predictions"] for each in (model, exported)]
    assert [row["label"] for row in rows[0]] == [row["label"] for row in rows[1]]
    np.testing.assert_allclose(*([entry["score"] for entry in row] for row in rows), atol=1e-5)
    assert sum(entry["score"] for entry in rows[0]) == pytest.approx(1, abs=1e-5)
    arguments = ["evaluate", str(tmp_path / "export"), "--data", table, "--output", str(tmp_path / "found")]
    assert main(arguments) == 0 and f"mean rank error {summary['rank_error']:.4g}" in capsys.readouterr().out
    results = json.loads((tmp_path / "found" / "results.json").read_text())
    assert results["ranks"]["kappa"]["value"] == pytest.approx(summary["kappa"])
    assert results["ranks"]["kappa"]["low"] <= summary["kappa"] <= results["ranks"]["kappa"]["high"]
    with pytest.raises(ValueError, match="model expected a classifier whose head is keras_vit's, .* ordered classes"):
        set_temperature(model, 2.0)


@pytest.mark.broad
def test_class_weights_and_soft_steps_work_with_ordered_classes(table, tmp_path):
    weighted = replace(RECIPE, loss=Loss("ordinal", class_weights={"best": 2.0}, label_smoothing=0.1), epochs=1)
    weighted = replace(weighted, checkpoint=Checkpoint(), evaluate=Evaluate())
    assert np.isfinite(train(weighted, tmp_path / "run", table)["loss"])
    assert np.isfinite(dry_run(RECIPE)["losses"]).all()


@pytest.mark.broad
@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ((), "classes expected the names of the classes in order, the lowest first, with the loss 'ordinal'"),
        (("poor", "fair", "good"), "classes expected the names of all classes of the data, .*; it lacks best"),
        ((*CLASSES, "great"), "classes expected the names of all classes of the data, .*; the data has no great"),
    ],
)
def test_classes_without_an_order_or_with_unknown_names_are_refused(classes, sentence, table, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        train(replace(RECIPE, data=replace(RECIPE.data, classes=classes)), tmp_path / "run", table)
