"""Weights with a preprocessing of their own: every tool prepares images as the weights state."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.analysis.report import analyze
from keras_vit.cli.images import load_folder
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.predict import load_predictor, predict
from keras_vit.preprocessing.image_spec import ImageSpec, store_preprocessing
from keras_vit.preprocessing.inputs import load_image

pytestmark = needs_tensorflow
ROW = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=16)
LABELS = ("day", "night")
SPEC = ImageSpec(
    (16, 16), "center", "bicubic", crop_fraction=0.8, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)


def built(include_preprocessing=False):
    options = {"classes": 2, "labels": LABELS, "include_preprocessing": include_preprocessing}
    model = randomise(keras_vit.build(ROW, **options))
    store_preprocessing(model, SPEC)
    return model


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Wide and high images whose borders differ from their middle, in a folder per class."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for label in LABELS:
        (folder / label).mkdir()
        for i, size in enumerate(((40, 20), (20, 44), (31, 30), (16, 16))):
            pixels = rng.integers(0, 256, (*size, 3)).astype("uint8")
            pixels[2:-2, 2:-2] //= 1 + LABELS.index(label)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


def files_of(photos):
    return sorted(photos.glob("*/*.png"))


def prepared(photos):
    """Inputs as timm's transform computes them, by Pillow alone."""
    images = []
    for file in files_of(photos):
        image = Image.open(file)
        short = min(image.size)
        image = image.resize(tuple(20 * side // short for side in image.size), Image.Resampling.BICUBIC)
        left, top = (round((side - 16) / 2) for side in image.size)
        images.append(np.asarray(image.crop((left, top, left + 16, top + 16)), "float32"))
    pixels = np.stack(images)
    return pixels, (pixels / 255 - np.float32(SPEC.mean)) / np.float32(SPEC.std)


def probabilities(model, photos):
    pixels, inputs = prepared(photos)
    return np.asarray(named_outputs(model)(pixels if model_interface(model).takes_pixels else inputs)["probabilities"])


@pytest.mark.parametrize("include_preprocessing", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_prediction_and_evaluation(include_preprocessing, photos, tmp_path):
    from keras_vit.evaluate.accuracy import evaluate_model
    from keras_vit.train.recipe import Data

    model = built(include_preprocessing)
    expected = probabilities(model, photos)
    rows = predict(model, files_of(photos))
    assert max_difference(_scores(rows), expected) < 1e-5
    data = Data("folder", str(photos), train_split="test[:100%]", test_split="test[:100%]", batch_size=3)
    truth = np.array([LABELS.index(file.parent.name) for file in files_of(photos)])
    results = evaluate_model(model, _folders(data, photos, tmp_path))
    assert results["loss"] == pytest.approx(-np.log(expected[np.arange(8), truth]).mean(), abs=1e-5)


def _scores(rows):
    scores = [{best["label"]: best["score"] for best in row["predictions"]} for row in rows]
    return np.array([[row[label] for label in LABELS] for row in scores])


def _folders(data, photos, folder):
    """The photos as the splits of a folder."""
    (folder / "test").mkdir()
    for label in LABELS:
        (folder / "test" / label).symlink_to(photos / label)
    (folder / "train").symlink_to(folder / "test")
    return replace(data, directory=str(folder), test_split="test", train_split="train")


@pytest.mark.parametrize("include_preprocessing", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_an_export(include_preprocessing, photos, tmp_path):
    import tensorflow as tf

    from keras_vit.export import export

    model = built(include_preprocessing)
    interface = model_interface(model)
    images, labels = load_folder(photos, interface, 100)
    assert max_difference(images, prepared(photos)[0]) == 0 and len(labels) == 8
    report = export(model, tmp_path / "out", images, labels, formats=["saved_model"])
    manifest = json.loads((report.path / "manifest.json").read_text())
    assert ImageSpec(**manifest["input"]["preprocessing"]) == SPEC
    low, high = manifest["input"]["range"]
    expected = (0, 255) if include_preprocessing else (-0.485 / 0.229, (1 - 0.406) / 0.225)
    assert (low, high) == pytest.approx(expected, abs=1e-5)
    assert f"- Preprocessing: {SPEC}." in (report.path / "model_card.md").read_text()
    expected = probabilities(model, photos)
    signature = tf.saved_model.load(str(report.path)).signatures["classify_bytes"]
    received = signature(image_bytes=tf.constant([file.read_bytes() for file in files_of(photos)]))
    assert max_difference(received["probabilities"], expected) < 1e-5
    loaded = load_predictor(report.path)
    assert loaded.interface.preprocessing == SPEC
    rows = predict(loaded, files_of(photos))
    assert max_difference(_scores(rows), expected) < 1e-5


@pytest.mark.broad
def test_an_older_export_without_preprocessing_is_scaled_plainly(photos, tmp_path):
    from keras_vit.export import export

    report = export(randomise(keras_vit.build(ROW, classes=2)), tmp_path / "out", formats=["saved_model"])
    manifest = json.loads((report.path / "manifest.json").read_text())
    del manifest["input"]["preprocessing"]
    (report.path / "manifest.json").write_text(json.dumps(manifest))
    assert load_predictor(report.path).interface.preprocessing == ImageSpec()


def test_analysis(photos, tmp_path):
    model = built()
    _, inputs = prepared(photos)
    expected = analyze(model, inputs, tmp_path / "a", names=[f.name for f in files_of(photos)], parts=["attention"])
    received = analyze(model, [str(file) for file in files_of(photos)], tmp_path / "b", parts=["attention"])
    assert received["images"] == expected["images"]
    pixels = load_image(files_of(photos)[0], (16, 16, 3), SPEC)
    with pytest.raises(ValueError, match=r"images expected values in \[-2.12, 2.64\], as `model.preprocessing.norm"):
        analyze(model, pixels[None], tmp_path / "c")
    bright = np.full((1, 16, 16, 3), 2.6, "float32")  # within the range, though above 1
    analyze(model, bright, tmp_path / "d", parts=["attention"])


@pytest.mark.broad
def test_features_for_a_probe(photos, tmp_path):
    from keras_vit.data.evaluation import evaluation_batches
    from keras_vit.data.sources import open_data
    from keras_vit.train.recipe import Data

    data = _folders(Data("folder", batch_size=8), photos, tmp_path)
    examples = open_data(data, "test", None, ())
    order = [[Path(file).resolve() for file in examples.files].index(file.resolve()) for file in files_of(photos)]
    for scale, expected in zip((False, True), prepared(photos), strict=True):
        batch = next(iter(evaluation_batches(examples, batch_size=8, input_shape=(16, 16, 3), scale=scale, spec=SPEC)))
        assert max_difference(batch[0].numpy()[order], expected) < 1e-5


@pytest.mark.broad
@pytest.mark.parametrize("resize", [None, 20])
def test_a_recipe_starts_from_the_preprocessing_of_its_weights(resize, photos, tmp_path):
    """Training normalises as the weights state; the finished model evaluates as the run did."""
    from keras_vit.data.pipeline import training_batches
    from keras_vit.data.sources import open_data
    from keras_vit.evaluate.accuracy import evaluate_model
    from keras_vit.train.engine import train
    from keras_vit.train.recipe import Augment, Data, Model, Optimizer, Recipe

    built().save(tmp_path / "start.keras")
    data = replace(_folders(Data("folder", batch_size=4), photos, tmp_path), resize=resize)
    settings = Model(ROW, weights=str(tmp_path / "start.keras"), image_size=16)
    recipe = Recipe("tuned", settings, data, Augment(crop="none"), Optimizer("sgd", learning_rate=1e-3), steps=2)
    summary = train(recipe, tmp_path / "run")
    model = keras_vit.load_model(tmp_path / "run")
    spec = model.preprocessing
    assert spec == (SPEC if resize is None else ImageSpec((16, 16), mean=SPEC.mean, std=SPEC.std))
    results = evaluate_model(model, data)
    assert results["accuracy"] == summary["accuracy"]
    examples = open_data(data, "train", None, ())
    batches = [
        next(iter(training_batches(examples, Augment(crop="none"), batch_size=8, input_shape=(16, 16, 3), epochs=1,
                                   scale=scale, spec=SPEC)))[0] for scale in (False, True)
    ]  # fmt: skip
    assert max_difference(SPEC.normalize(np.asarray(batches[0])), batches[1]) < 1e-5
