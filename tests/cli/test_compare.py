"""`keras-vit compare`: two models on the same images, against scikit-learn and SciPy."""

import json

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise, various

import keras_vit
from keras_vit import cli
from keras_vit.evaluate import agreement, mcnemar
from keras_vit.evaluate.losses import ClassTerms
from keras_vit.train.model import build_model
from keras_vit.train.recipe import Data, Loss, Model, Recipe

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (3, 9), (12, 12), (5, 19), (5, 20), (60, 40), (13, 12)])
def test_mcnemar_is_scipys(counts):
    stats = pytest.importorskip("scipy.stats")
    found = mcnemar(*counts)
    if sum(counts) < 25:
        expected = stats.binomtest(counts[0], sum(counts), 0.5).pvalue if sum(counts) else 1.0
    else:
        expected = stats.chi2.sf((abs(counts[0] - counts[1]) - 1) ** 2 / sum(counts), 1)
    assert found["method"] == ("exact" if sum(counts) < 25 else "chi-squared")
    assert found["p"] == pytest.approx(expected)


def test_agreement_counts_what_only_one_gets_right():
    found = agreement([0, 1, 1, 2, 0], [0, 1, 2, 0, 1], [0, 2, 2, 2, 2])
    assert (found["agreement"], found["changed"], found["accuracy"]) == (0.4, 3, [0.4, 0.4])
    assert (found["mcnemar"]["first_only"], found["mcnemar"]["second_only"]) == (1, 1)
    with pytest.raises(ValueError, match="one class per image"):
        agreement([0, 1], [0])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("compared"), np.random.default_rng(0)
    for name, seed, labels in (("a", 1, "xyz"), ("b", 2, "zyx"), ("other", 3, "xyw")):
        model = keras_vit.build(TINY, classes=3, labels=list(labels))
        various(randomise(model, seed=seed)).save(folder / f"{name}.keras")
    for name in "xyz":
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(9):
            pixels = rng.integers(0, 256, (8, 8, 3), "uint8")
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.png")
            (folder / "plain").mkdir(exist_ok=True)
            Image.fromarray(pixels).save(folder / "plain" / f"{name}{i}.png")
    return folder


def run(capsys, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["compare", *map(str, arguments)]) == status
    return capsys.readouterr()


def test_two_models_with_their_classes_in_another_order(place, tmp_path, capsys):
    metrics = pytest.importorskip("sklearn.metrics")
    models, data = (place / "a.keras", place / "b.keras"), place / "photos"
    found = json.loads(run(capsys, *models, "--data", data, "--output", tmp_path, "--json").out)
    files = sorted(data.glob("*/*.png"))
    pixels = np.stack([np.asarray(Image.open(file), "float32") for file in files]) / 127.5 - 1
    answers = [[labels[i] for i in np.argmax(keras_vit.load_model(model)(pixels), axis=1)]
               for model, labels in zip(models, ("xyz", "zyx"), strict=True)]  # fmt: skip
    true = [file.parent.name for file in files]
    assert found["agreement"] == pytest.approx(metrics.accuracy_score(*answers)) and 0 < found["agreement"] < 1
    assert found["accuracy"] == pytest.approx([metrics.accuracy_score(true, answer) for answer in answers])
    expected = {(str(f), a, b, t) for f, a, b, t in zip(files, *answers, true, strict=True) if a != b}
    assert {(row["image"], row["first"], row["second"], row["label"]) for row in found["changes"]} == expected
    assert json.loads((tmp_path / "comparison.json").read_text()) == found
    text = (tmp_path / "comparison.html").read_text()
    assert text.count("<img") == len(expected) and "http" not in text and "McNemar" in text


def test_images_without_labels_and_one_model_twice(place, capsys):
    found = json.loads(run(capsys, *[place / "a.keras"] * 2, "--data", place / "plain", "--json").out)
    assert (found["images"], found["agreement"], found["changes"]) == (27, 1.0, [])
    assert "accuracy" not in found and "mcnemar" not in found
    said = run(capsys, *[place / "a.keras"] * 2, "--data", place / "plain")
    assert "so the images have no labels" in said.out
    said = run(capsys, place / "a.keras", place / "b.keras", "--data", place / "photos")
    assert "McNemar's test (exact): p = " in said.out


def test_other_classes_and_no_images_get_one_sentence(place, tmp_path, capsys):
    said = run(capsys, place / "a.keras", place / "other.keras", "--data", place / "photos", status=2)
    assert "a model of the same 3 classes" in said.err and "z, w" in said.err and said.err.count("\n") == 1
    said = run(capsys, *[place / "a.keras"] * 2, "--data", tmp_path, status=2)
    assert "expected images, found none" in said.err and said.err.count("\n") == 1


@pytest.fixture(scope="module")
def further(tmp_path_factory):
    """Two regressions and two models of several labels, with their targets and labels in another order."""
    folder, rng = tmp_path_factory.mktemp("further"), np.random.default_rng(0)
    row = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=1, patch_size=8, image_size=8)
    for i, order in enumerate((("age", "size"), ("size", "age"))):
        data = Data("csv", targets="numbers", columns=order)
        terms = ClassTerms(mean=np.array([40.0, 40.0], "float32"), deviation=np.array([9.0, 9.0], "float32"))
        regression = build_model(Recipe("values", Model(row), data, loss=Loss("huber")), order, terms)
        various(randomise(regression, seed=i)).save(folder / f"values{i}.keras")
    for i, order in enumerate((("cat", "dog", "owl"), ("owl", "dog", "cat"))):
        several = build_model(Recipe("several", Model(row), Data("csv"), loss=Loss("sigmoid")), order)
        several.get_layer("head").thresholds = (0.5, 0.5, 0.5)
        various(randomise(several, seed=i)).save(folder / f"several{i}.keras")
    rows, hot = ["path,age,size"], ["path,dog,cat,owl"]
    (folder / "plain").mkdir()
    for i in range(30):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), "uint8")).save(folder / "plain" / f"{i}.png")
        rows.append(f"plain/{i}.png,{rng.normal(40, 9):.2f},{rng.normal(40, 9):.2f}")
        hot.append(f"plain/{i}.png," + ",".join(map(str, rng.integers(0, 2, 3))))
    (folder / "values.csv").write_text("\n".join(rows) + "\n")
    (folder / "several.csv").write_text("\n".join(hot) + "\n")
    return folder


def answers_of(model, folder):
    pixels = [np.asarray(Image.open(folder / "plain" / f"{i}.png"), "float32") for i in range(30)]
    return keras_vit.load_model(model).predict(np.stack(pixels) / 127.5 - 1, verbose=0)


def test_two_regressions_with_their_targets_in_another_order(further, tmp_path, capsys):
    models = [further / f"values{i}.keras" for i in (0, 1)]
    found = json.loads(run(capsys, *models, "--data", further / "values.csv", "--output", tmp_path, "--json").out)
    first, second = answers_of(models[0], further), answers_of(models[1], further)[:, ::-1]
    values = np.array([line.split(",")[1:] for line in (further / "values.csv").read_text().split()[1:]], "float64")
    age = found["targets"][0]
    expected = [np.abs(answers - values)[:, 0].mean() for answers in (first, second)]
    assert age["target"] == "age" and age["mae"] == pytest.approx(expected, rel=1e-4)
    assert age["change"]["low"] <= age["change"]["value"] <= age["change"]["high"] and 0 < age["p"] <= 1
    gaps = (np.abs(first - second) / values.std(axis=0)).max(axis=1)
    assert found["changes"][0]["image"].endswith(f"/{gaps.argmax()}.png") and len(found["changes"]) == 30
    text = (tmp_path / "comparison.html").read_text()
    assert text.count("<img") == 30 and " became " in text and "second MAE" in text
    said = run(capsys, *models, "--data", further / "values.csv")
    assert "p: of the paired randomisation test" in said.out and "on 30 images" in said.out
    said = run(capsys, *models, "--data", further / "plain")
    assert "on 30 images without known values" in said.out


def test_two_models_of_several_labels(further, tmp_path, capsys):
    models = [further / f"several{i}.keras" for i in (0, 1)]
    found = json.loads(run(capsys, *models, "--data", further / "several.csv", "--output", tmp_path, "--json").out)
    first, second = answers_of(models[0], further) >= 0.5, answers_of(models[1], further)[:, ::-1] >= 0.5
    changed = (first != second).any(axis=1)
    assert found["changed"] == changed.sum() > 0 and found["agreement"] == pytest.approx(1 - changed.mean())
    assert [row["changed"] for row in found["labels"]] == (first != second).sum(axis=0).tolist()
    assert [row["label"] for row in found["labels"]] == ["cat", "dog", "owl"]
    row, names = found["changes"][0], np.array(["cat", "dog", "owl"])
    number = int(row["image"].rsplit("/", 1)[1][:-4])
    assert (row["first"], row["second"]) == (names[first[number]].tolist(), names[second[number]].tolist())
    assert (tmp_path / "comparison.html").read_text().count("<img") == changed.sum()
    said = run(capsys, *models, "--data", further / "several.csv")
    assert "mean average precision: " in said.out and "McNemar's test of the label's answers" in said.out
    said = run(capsys, *models, "--data", further / "plain")
    assert "the images have no known labels; a CSV file with the column labels has" in said.out


def test_models_of_two_kinds_get_one_sentence(further, place, capsys):
    values, several = further / "values0.keras", further / "several0.keras"
    said = run(capsys, values, several, "--data", further / "plain", status=2)
    assert "second expected a regression as first, received a model of several labels per image." in said.err
    said = run(capsys, several, place / "a.keras", "--data", further / "plain", status=2)
    assert "second expected a model of several labels per image as first, received a model of one class" in said.err
    said = run(capsys, *[several] * 2, "--data", further / "values.csv", status=2)
    assert "expected 0 or 1 in the columns of labels" in said.err
