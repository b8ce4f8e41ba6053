"""Soft labels: probabilities of a table through the cross entropy; and options that do not fit the labels."""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow

from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Masked, Model, Optimizer, Recipe, Variant
from keras_vit.train.recipe.file import override

pytestmark = needs_tensorflow
ROW = Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "soft",
    Model(ROW),
    Data("csv", batch_size=16, targets="probabilities"),
    optimizer=Optimizer("adamw", learning_rate=1e-2),
    epochs=4,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Bright and dark pictures whose annotators disagree the more, the greyer a picture is."""
    folder, rng = tmp_path_factory.mktemp("soft"), np.random.default_rng(0)
    rows = ["path,split,day,night"]
    for i in range(96):
        share = round(float(rng.uniform()), 2)
        pixels = np.clip(rng.normal(40 + 170 * share, 30, (8, 8, 3)), 0, 255)
        Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:03d}.png")
        rows.append(f"{i:03d}.png,{'train' if i < 64 else 'test'},{share},{1 - share:.2f}")
    (folder / "soft.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "soft.csv")


@pytest.mark.broad
def test_a_run_reports_the_cross_entropy_of_the_probabilities(table, tmp_path):
    summary = train(RECIPE, tmp_path / "run", table)
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", compile=False)
    folder, rows = Path(table).parent, [line.split(",") for line in Path(table).read_text().split()[1:]]
    rows = [row for row in rows if row[1] == "test"]
    images = np.stack([np.asarray(Image.open(folder / row[0]), "float32") for row in rows])
    targets, found = np.array([[float(x) for x in row[2:]] for row in rows]), np.asarray(model(images / 127.5 - 1.0))
    entropy = -(targets * np.log(found)).sum(axis=1).mean()
    assert summary["loss"] == pytest.approx(entropy, rel=1e-5)
    best = -(targets * np.log(np.maximum(targets, 1e-9))).sum(axis=1).mean()
    assert best < entropy < np.log(2)  # between perfect probabilities and equal ones
    assert summary["accuracy"] == pytest.approx((found.argmax(1) == targets.argmax(1)).mean())
    again = evaluate_model(model, RECIPE.data, table, RECIPE.loss)
    assert again["loss"] == pytest.approx(summary["loss"], rel=1e-5)
    assert np.isfinite(dry_run(RECIPE)["losses"]).all()


NUMBERS = replace(RECIPE, data=replace(RECIPE.data, targets="numbers"), loss=Loss("mse"))


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (RECIPE, ["loss.kind=sigmoid"], "kind expected 'softmax' with probabilities, received 'sigmoid'"),
        (RECIPE, ["loss.kind=mse"], "kind expected 'softmax' with probabilities, received 'mse'"),
        (RECIPE, ["data.sampling=balanced"], "sampling expected 'uniform' with probabilities, which have no single"),
        (RECIPE, ["data.source=folder"], "targets expected 'classes' with the source 'folder'; the source 'csv' has"),
        (RECIPE, ['data.classes=["day", "night"]'], r"classes expected \(\) with probabilities, whose order is that"),
        (RECIPE, ["evaluate.few_shot=digits"], "few_shot expected null with probabilities, received 'digits'"),
        (NUMBERS, ["loss.kind=softmax"], "kind expected 'mse', 'l1' or 'huber' with numbers, received 'softmax'"),
        (NUMBERS, ["loss.kind=ordinal"], "kind expected 'mse', 'l1' or 'huber' with numbers, received 'ordinal'"),
        (NUMBERS, ["data.targets=classes"], "kind expected 'softmax', 'sigmoid' or 'ordinal' with classes; the"),
        (NUMBERS, ["loss.focal_gamma=2"], "focal_gamma expected 0 with the loss 'mse', whose targets are values"),
        (NUMBERS, ["loss.class_weights=balanced"], "class_weights expected null with the loss 'mse', .* without"),
        (NUMBERS, ["loss.label_smoothing=0.1"], "label_smoothing expected 0 with the loss 'mse'"),
        (NUMBERS, ["loss.logit_adjustment=1"], "logit_adjustment expected 0 with the loss 'mse'"),
        (NUMBERS, ["loss.bootstrap=soft"], "bootstrap expected null with the loss 'mse', .*; 'l1' or 'huber' weigh"),
        (NUMBERS, ["loss.symmetric=[0.1, 1]"], "symmetric expected null with the loss 'mse'"),
        (NUMBERS, ["data.sampling=balanced"], "sampling expected 'uniform' with numbers, which have no single class"),
        (NUMBERS, ["augment.cutmix=1"], "cutmix expected 0 with the loss 'mse', .*; mixup fits, received 1"),
        (NUMBERS, ["augment.mosaic=0.5"], "mosaic expected 0 with the loss 'mse'"),
        (NUMBERS, ["model.head_bias=-10"], "head_bias expected 0 with the loss 'mse', .* the first prediction is the"),
        (NUMBERS, ['evaluate.metrics=["accuracy", "top5"]'], "metrics expected the default with the loss 'mse'"),
        (NUMBERS, ["loss.huber_delta=2"], "huber_delta expected 1 without the loss 'huber', received 2"),
        (NUMBERS, ["evaluate.few_shot=digits"], "few_shot expected null with numbers, received 'digits'"),
        (replace(RECIPE, data=Data()), ["loss.kind=huber"], "kind expected 'softmax', 'sigmoid' or 'ordinal' with"),
        (replace(RECIPE, data=Data()), ['data.columns=["age"]'], r"columns expected \(\) with classes; targets"),
        (replace(RECIPE, data=Data()), ["loss.kind=ordinal"], "classes expected the names of the classes in order"),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_the_labels_says_which_would(recipe, settings, sentence, tmp_path):
    recipe = override(recipe, settings)
    for call in (lambda: train(recipe, tmp_path / "run"), lambda: dry_run(recipe)):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert not (tmp_path / "run" / "recipe.json").exists()


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        (
            "loss",
            {"kind": "mae"},
            "kind expected one of 'softmax', 'sigmoid', 'ordinal', 'mse', 'l1', 'huber', received",
        ),
        ("loss", {"huber_delta": 0.0}, "huber_delta expected a positive number, received 0.0"),
        ("data", {"targets": "age"}, "targets expected one of 'classes', 'probabilities', 'numbers', received 'age'"),
        ("data", {"columns": ("a", "a")}, "columns expected a tuple of distinct names, received"),
        ("data", {"classes": "abc"}, "classes expected a tuple of distinct names, received 'abc'"),
    ],
)
def test_a_field_out_of_range_is_refused(field, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(getattr(RECIPE, field), **value)


def test_a_regression_needs_different_values_and_ordered_classes_one_of_them(table, tmp_path):
    folder, lines = Path(table).parent, Path(table).read_text().split()
    same = folder / "same.csv"
    same.write_text("\n".join(["path,split,age", *(f"{line.rsplit(',', 2)[0]},7" for line in lines[1:])]))
    with pytest.raises(
        ValueError, match="targets expected training images with different values of each target, .* age"
    ):
        train(NUMBERS, tmp_path / "run", str(same))
    several = folder / "several.csv"
    rows = [f"{line.rsplit(',', 2)[0]},{'a;b' if i % 2 else 'a'}" for i, line in enumerate(lines[1:])]
    several.write_text("\n".join(["path,split,labels", *rows]))
    ordinal = replace(RECIPE, data=Data("csv", batch_size=16, classes=("b", "a")), loss=Loss("ordinal"))
    with pytest.raises(ValueError, match="kind expected 'sigmoid' with several classes per image, received 'ordinal'"):
        train(ordinal, tmp_path / "run", str(several))
    masked = replace(RECIPE, data=replace(RECIPE.data, targets="classes"), masked=Masked(), evaluate=Evaluate())
    assert masked.augment == Augment()  # masked patches ignore the labels
