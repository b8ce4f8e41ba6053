"""`keras-vit compare`: two models on the same images, against scikit-learn and SciPy."""

import json

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise, various

import keras_vit
from keras_vit import cli
from keras_vit.evaluate import agreement, mcnemar

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
