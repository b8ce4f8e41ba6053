"""`keras-vit evaluate --data`: any form of a model on labelled images, and the report."""

import csv
import json
import re

import keras
import numpy as np
import pytest
from chromium import browser
from PIL import Image
from support import needs_tensorflow, randomise, various

import keras_vit
from keras_vit import cli
from keras_vit.data.labelled import class_indices, labelled_files, training_files
from keras_vit.export import export
from keras_vit.train.recipe import Data, Model, Recipe
from keras_vit.train.recipe.file import to_json

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
CLASSES = ("ant", "bee", "cat")
COUNTS = {"train": 5, "val": 8, "test": 12}  # images per class


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, and a folder of images with splits, on which it makes mistakes."""
    folder, rng = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    model = various(randomise(keras_vit.build(TINY, classes=3, labels=CLASSES), seed=1))
    for split, count in COUNTS.items():
        for name in CLASSES:
            (folder / "photos" / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = Image.fromarray(rng.integers(0, 256, (4, 4, 3), "uint8")).resize((8, 8), 2)
                pixels.save(folder / "photos" / split / name / f"{i}.png")
    Image.open(folder / "photos" / "train" / "bee" / "3.png").resize((16, 16)).save(
        folder / "photos" / "test" / "ant" / "copy.png"
    )
    model.save(folder / "model.keras")
    return folder


def run(capsys, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["evaluate", *map(str, arguments)]) == status
    return capsys.readouterr()


def expected(model, folder):
    """Labels and probabilities, one image at a time."""
    files = sorted(folder.glob("*/*.png"), key=str)
    pixels = [np.asarray(Image.open(file).resize((8, 8), Image.Resampling.BILINEAR), "float32") for file in files]
    scores = keras.ops.convert_to_numpy(model(np.stack(pixels) / 127.5 - 1))
    return files, np.array([CLASSES.index(file.parent.name) for file in files]), scores


def test_the_results_are_scikit_learns_on_the_models_own_answers(place, tmp_path, capsys):
    metrics = pytest.importorskip("sklearn.metrics")
    said = run(capsys, place / "model.keras", "--data", place / "photos", "--output", tmp_path / "new", "--json")
    results = json.loads(said.out)
    assert json.loads((tmp_path / "new" / "results.json").read_text()) == results
    files, labels, scores = expected(keras_vit.load_model(place / "model.keras"), place / "photos" / "test")
    predicted = scores.argmax(axis=1)
    assert results["images"] == len(files) == 37
    assert results["accuracy"]["value"] == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert 0 < results["accuracy"]["low"] < results["accuracy"]["value"] < results["accuracy"]["high"] < 1
    f1 = metrics.f1_score(labels, predicted, average=None)
    assert [row["f1"]["value"] for row in results["classes"]] == pytest.approx(f1)
    assert [row["label"] for row in results["classes"]] == list(CLASSES)
    matrix = np.zeros((3, 3), int)
    for true, guess, count in results["confusion"]:
        matrix[true, guess] = count
    assert (matrix == metrics.confusion_matrix(labels, predicted)).all()
    first = results["surest_mistakes"][0]
    wrong = np.where(predicted != labels, scores.max(axis=1), 0)
    assert first["image"] == str(files[wrong.argmax()]) and first["score"] == pytest.approx(wrong.max(), abs=1e-5)
    assert (first["label"], first["predicted"]) == tuple(CLASSES[x[wrong.argmax()]] for x in (labels, predicted))
    assert results["temperature"] is None and results["near_duplicates"] is None and results["unreadable"] == []


def test_text_is_a_table_and_quiet_is_quiet(place, tmp_path, capsys):
    arguments = (place / "model.keras", "--data", place / "photos", "--output", tmp_path)
    said = run(capsys, *arguments)
    assert re.search(r"accuracy \d+\.\d% \(\d+\.\d% to \d+\.\d%\), top-2", said.out)
    assert re.search(r"^bee +12 +\d", said.out, re.MULTILINE) and "next: keras-vit export" in said.err
    said = run(capsys, *arguments, "--quiet")
    assert said.out == said.err == ""


@pytest.fixture(scope="module")
def exported(place):
    formats = ["saved_model", "tflite", "onnx", "openvino"]
    model = keras_vit.load_model(place / "model.keras")
    return export(model, place / "exports", formats=formats, batch=None).path


@pytest.mark.broad
@pytest.mark.parametrize("file", ["", "model.tflite", "model.onnx", "model.openvino.xml"])
def test_every_form_of_a_model_has_the_same_figures(file, place, exported, tmp_path, capsys):
    if file and not (exported / file).is_file():
        file = next(path.name for path in exported.iterdir() if path.suffix == f".{file.split('.')[-1]}")
    figures = []
    for source in (exported / file, place / "model.keras"):
        said = run(capsys, source, "--data", place / "photos", "--output", tmp_path, "--json", "--quiet")
        figures.append(json.loads(said.out))
    assert figures[0]["classes"] == figures[1]["classes"]
    assert figures[0]["weights"] != figures[1]["weights"]
    assert figures[0]["calibration"]["ece"] == pytest.approx(figures[1]["calibration"]["ece"], abs=1e-5)
    assert figures[0]["calibration"]["log_loss"] == pytest.approx(figures[1]["calibration"]["log_loss"], abs=1e-5)


@pytest.mark.broad
def test_published_weights_are_evaluated(place, tmp_path, capsys):
    keras_vit.save_weights(keras_vit.load_model(place / "model.keras"), tmp_path / "hub", layout="hf")
    with_names = run(capsys, tmp_path / "hub", "--data", place / "photos", "--output", tmp_path, "--json")
    own = run(capsys, place / "model.keras", "--data", place / "photos", "--output", tmp_path, "--json")
    assert json.loads(with_names.out)["confusion"] == json.loads(own.out)["confusion"]


def test_a_workdirs_split_is_its_recipes(tmp_path, capsys):
    """The same images and accuracy as `evaluate` without `--data` reports."""
    model = randomise(keras_vit.build(TINY, classes=10, labels=list("0123456789"), input_shape=(8, 8, 1)))
    model.save(tmp_path / "model.keras")
    recipe = Recipe(name="digits", model=Model("ViT_Ti16"), data=Data("digits"), epochs=1)
    (tmp_path / "recipe.json").write_text(to_json(recipe))
    plain = json.loads(run(capsys, tmp_path, "--json").out)
    output = tmp_path / "out"
    found = json.loads(run(capsys, tmp_path, "--data", "split", "--output", output, "--json").out)
    assert found["accuracy"]["value"] == pytest.approx(plain["accuracy"]) and found["images"] == plain["examples"]
    assert found["calibration"]["log_loss"] == pytest.approx(plain["loss"], rel=1e-5)
    assert (output / "report.html").read_text().count("<img") > 20  # pictures of a split without files, too


def test_a_temperature_is_fitted_on_the_validation_images(place, tmp_path, capsys):
    optimize = pytest.importorskip("scipy.optimize")
    metrics = pytest.importorskip("sklearn.metrics")
    data = ("--data", place / "photos", "--validation", place / "photos" / "val")
    found = json.loads(run(capsys, place / "model.keras", *data, "--output", tmp_path, "--json").out)
    model = keras_vit.load_model(place / "model.keras")
    (_, labels, scores), (_, others, test) = (expected(model, place / "photos" / name) for name in ("val", "test"))

    def scaled(scores, temperature):
        powers = scores.astype("float64") ** (1 / temperature)
        return powers / powers.sum(axis=1, keepdims=True)

    loss = lambda t: metrics.log_loss(labels, scaled(scores, t))  # noqa: E731
    best = optimize.minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-8}).x
    assert found["temperature"]["value"] == pytest.approx(best, rel=1e-3)
    after = metrics.log_loss(others, scaled(test, best))
    assert found["temperature"]["calibration"]["log_loss"] == pytest.approx(after, rel=1e-4)
    assert found["temperature"]["validation_images"] == 24


def test_a_copy_of_a_training_image_is_found(place, tmp_path, capsys):
    data = ("--data", place / "photos", "--train-images", place / "photos")
    found = json.loads(run(capsys, place / "model.keras", *data, "--output", tmp_path, "--json").out)
    pairs = [(row["image"][-12:], row["train_image"][-15:]) for row in found["near_duplicates"]]
    assert pairs == [("ant/copy.png", "train/bee/3.png")] and found["near_duplicates"][0]["correlation"] > 0.99


def test_a_broken_image_is_left_out_and_named(place, tmp_path, capsys):
    rows = [(place / "photos" / "test" / name / "0.png", name) for name in CLASSES]
    (tmp_path / "broken.png").write_bytes(b"no image")
    with (tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), ("broken.png", "bee"), *rows])
    said = run(capsys, place / "model.keras", "--data", tmp_path / "data.csv", "--output", tmp_path, "--json", status=1)
    found = json.loads(said.out)
    assert found["images"] == 3 and found["unreadable"][0]["image"].endswith("broken.png")
    assert found["unreadable"][0]["error"]


def folder(tmp_path, *names):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["ant/1.png", "dog/1.png", "elk/1.png"],
            r"classes of the model \(ant, bee, cat\), found 2 others \(dog, elk\)",
        ),
        (["1.png", "2.png"], "2 images without a label"),
        (["ant/1.png", "ant/2.png"], "at least 2 classes, found only 'ant'"),
        ([], "expected images, found none"),
        (["train/ant/1.png", "train/bee/1.png", "test/.hidden/1.png"], "expected images, found none in .*test"),
    ],
)
def test_data_that_does_not_fit_gets_one_sentence(names, message, place, tmp_path, capsys):
    data = folder(tmp_path / "data", *names)
    data.mkdir(exist_ok=True)
    said = run(capsys, place / "model.keras", "--data", data, "--output", tmp_path / "out", status=2)
    assert re.search(message, said.err) and said.err.count("\n") == 1 and said.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere", "--output", "x"], "found nothing at 'nowhere'"),
        (["--data", "split", "--output", "x"], "split expected a workdir or --recipe"),
        (["--data", "x"], "--output expected the folder"),
        (["--data", "x", "--output", "x", "--suite", "real"], "neither --suite nor --flip, received --suite"),
        (["--validation", "x"], "--data expected labelled images with --validation"),
        (["--data", "x", "--output", "x", "--save-calibrated", "x.keras"], "--validation expected labelled images"),
        (["--data", "x", "--output", "x", "--validation", "x", "--save-calibrated", "x.h5"], "expected a .keras file"),
    ],
)
def test_options_that_do_not_fit_get_one_sentence(arguments, message, place, capsys):
    said = run(capsys, place / "model.keras", *arguments, status=2)
    assert message in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize("text", ["path\na.png\n", "", "path,label\na.png,\n"])
def test_a_csv_file_without_labels_gets_one_sentence(text, tmp_path):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(
        ValueError, match="expected a value for each of the 2 columns in each row|the columns path, label"
    ):
        labelled_files(tmp_path / "data.csv")


def test_files_and_classes(tmp_path):
    data = folder(tmp_path, "photos/b/x.png", "photos/a/deep/y.png", "photos/train/z.png")
    files, names = labelled_files(data / "photos")  # without a test folder, `train` is a class
    assert [file.split("photos/")[1] for file in files] == ["a/deep/y.png", "b/x.png", "train/z.png"]
    assert names == ["a", "b", "train"]
    assert class_indices(["b", "a", "b"], ["a", "b", "c"]).tolist() == [1, 0, 1]  # the data may lack a class
    assert class_indices(["b", "a"], ["0", "1"]).tolist() == [1, 0]  # a model without names
    assert class_indices(["n01443537"], [str(i) for i in range(1000)]).tolist() == [1]
    assert [file[-5:] for file in training_files(data / "photos", "--train-images")] == ["z.png"]


def test_the_page_is_whole_and_fits_a_phone(place, tmp_path, capsys):
    data = ("--data", place / "photos", "--validation", place / "photos" / "val", "--train-images", place / "photos")
    run(capsys, place / "model.keras", *data, "--output", tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "http" not in text and not re.search(r'(src|href)="(?!data:)', text)
    for title in ("Classes", "Calibration", "Rejecting uncertain images", "The surest mistakes", "Near-duplicates"):
        assert f"<h2>{title}" in text
    with browser(tmp_path / "profile") as page:
        page.open((tmp_path / "report.html").as_uri(), 390, 800)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth)")
        size = page.evaluate("Math.min(...[...document.querySelectorAll('td, figcaption')].map(x => "
                             "parseFloat(getComputedStyle(x).fontSize)))")  # fmt: skip
        assert size >= 12


def test_the_calibrated_model_has_the_temperature_and_the_same_accuracy(place, tmp_path, capsys):
    data = ("--data", place / "photos", "--output", tmp_path, "--json", "--quiet")
    saving = ("--validation", place / "photos" / "val", "--save-calibrated", tmp_path / "new.keras")
    first = json.loads(run(capsys, place / "model.keras", *data, *saving).out)
    second = json.loads(run(capsys, tmp_path / "new.keras", *data).out)
    assert second["calibration"]["ece"] == pytest.approx(first["temperature"]["calibration"]["ece"], abs=1e-5)
    assert second["calibration"]["log_loss"] != pytest.approx(first["calibration"]["log_loss"], rel=1e-2)
    assert second["classes"] == first["classes"]
    found = keras_vit.load_model(tmp_path / "new.keras").get_layer("head").temperature
    assert found == pytest.approx(first["temperature"]["value"])


@pytest.mark.broad
def test_an_export_cannot_be_saved_with_a_temperature(place, exported, tmp_path, capsys):
    saving = ("--validation", place / "photos" / "val", "--save-calibrated", tmp_path / "new.keras")
    said = run(capsys, exported, "--data", place / "photos", "--output", tmp_path, *saving, status=2)
    assert "calibrate the model, then export it" in said.err and not (tmp_path / "new.keras").exists()


def test_a_name_that_no_font_can_draw_is_a_number_in_the_picture_and_both_in_the_table(place, tmp_path, monkeypatch):
    from keras_vit.analysis import evaluation_page
    from keras_vit.evaluate import labelled_results
    from keras_vit.evaluate.mistakes import coverage_curve

    monkeypatch.setattr(evaluation_page, "drawable", lambda names: ["ant", "class 1"])
    scores, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1])
    results = labelled_results(scores, labels, ["ant", "<bee>"])
    results |= {"model": "m", "data": "d", "unreadable": [], "temperature": None, "near_duplicates": []}
    blank = lambda names: [np.zeros((8, 8, 1))] * len(names)  # noqa: E731
    evaluation_page.write_evaluation(tmp_path / "r.html", results, coverage_curve(scores, labels), blank)
    text = (tmp_path / "r.html").read_text()
    assert "<td>&lt;bee&gt; (class 1)</td>" in text and "<td>ant</td>" in text and "<bee>" not in text
    assert "No evaluated image looks like a training image." in text


@pytest.mark.broad
def test_the_model_card_has_the_results_of_these_weights(place, tmp_path, capsys):
    said = run(capsys, place / "model.keras", "--data", place / "photos", "--output", tmp_path / "new", "--json")
    results = json.loads(said.out)
    words = ["export", place / "model.keras", "--output", tmp_path / "saved", "--formats", "tflite"]
    assert cli.main([*map(str, words), "--results", str(tmp_path / "new" / "results.json"), "--quiet"]) == 0
    card = (tmp_path / "saved" / "1" / "model_card.md").read_text()
    accuracy = results["accuracy"]
    line = f"| accuracy | {accuracy['value']:.2%} | {accuracy['low']:.2%} to {accuracy['high']:.2%} |"
    assert "## Evaluation" in card and line in card
    for row in results["classes"]:
        assert f"| {row['label']} | {row['images']} | {row['precision']['value']:.1%} |" in card
    assert f"Labels that are likely wrong: {results['likely_wrong_labels_in_all']}." in card


@pytest.mark.broad
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "an evaluation of the exported weights, received one of 'model.keras'"),
        ({"accuracy": None}, "a results.json of keras-vit evaluate --data"),
        (None, "found none"),
    ],
)
def test_results_of_other_weights_are_refused(change, message, place, tmp_path, capsys):
    run(capsys, place / "model.keras", "--data", place / "photos", "--output", tmp_path, "--quiet")
    file = tmp_path / "results.json"
    results = json.loads(file.read_text())
    if change is None:
        file.unlink()
    elif change["accuracy" if "accuracy" in change else "sha256"] is None:
        file.write_text(json.dumps({name: value for name, value in results.items() if name != "accuracy"}))
    else:
        file.write_text(json.dumps(results | change))
    words = ["export", place / "model.keras", "--output", tmp_path / "saved", "--results", file]
    assert cli.main([*map(str, words)]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "saved").exists()


def test_of_a_table_with_splits_the_rows_of_the_split_are_meant(tmp_path):
    table = tmp_path / "splits.csv"
    rows = [f"{i}.png,{'ab'[i % 2]},{split}" for i, split in enumerate(["train"] * 4 + ["test"] * 2)]
    table.write_text("\n".join(["path,label,split", *rows]))
    files, labels = labelled_files(table)
    assert [file.rpartition("/")[2] for file in files] == ["4.png", "5.png"] and labels == ["a", "b"]
    assert len(training_files(table, "--train-images")) == 4
    table.write_text("\n".join(["path,label,split", *rows[:4]]))
    with pytest.raises(ValueError, match="--data expected rows with 'test' in the column split of .*, found none"):
        labelled_files(table)
