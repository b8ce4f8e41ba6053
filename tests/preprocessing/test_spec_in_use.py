"""Weights with a preprocessing of their own: every tool prepares images as the weights state."""

import json
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from photos import CLIP
from PIL import Image
from serving import b64, started
from support import max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.analysis.report import analyze
from keras_vit.cli.images import images_to_calibrate, load_folder
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.predict import load_predictor, predict
from keras_vit.preprocessing.geometry import prepare_image
from keras_vit.preprocessing.image_spec import ImageSpec, store_preprocessing
from keras_vit.preprocessing.inputs import load_image

pytestmark = needs_tensorflow
ROW = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=16)
LABELS = ("day", "night")
SPEC = ImageSpec(
    (16, 16), "center", "bicubic", crop_fraction=0.8, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)
OTHERS = {
    "squash": ImageSpec((16, 16), "squash", "lanczos", crop_fraction=0.9, **CLIP, channel_order="BGR"),
    "border": ImageSpec((16, 16), "border", "bicubic", mean=(0.2, 0.5, 0.8), std=(0.3, 0.2, 0.25)),
    "no antialias": ImageSpec((16, 16), "center", antialias=False, crop_fraction=0.8, **CLIP, channel_order="BGR"),
}
SPECS = [pytest.param(SPEC, id="center")]
SPECS += [pytest.param(spec, id=name, marks=pytest.mark.broad) for name, spec in OTHERS.items()]
KINDS = pytest.mark.parametrize("spec", SPECS)


def built(include_preprocessing=False, spec=SPEC):
    options = {"classes": 2, "labels": LABELS, "include_preprocessing": include_preprocessing}
    model = randomise(keras_vit.build(ROW, **options))
    store_preprocessing(model, spec)
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


def prepared(photos, spec=SPEC):
    """Pixels and inputs as timm's transform computes them, by Pillow alone.

    Those of other specifications are ours, which test_image_spec.py compares with timm's.
    """
    images = []
    if spec is not SPEC:
        images = [prepare_image(np.asarray(Image.open(file)), spec, (16, 16)) for file in files_of(photos)]
        ordered = np.stack(images)[..., :: -1 if spec.channel_order == "BGR" else 1]
        return np.stack(images), ((ordered / 255 - np.float32(spec.mean)) / np.float32(spec.std)).astype("float32")
    for file in files_of(photos):
        image = Image.open(file)
        short = min(image.size)
        image = image.resize(tuple(20 * side // short for side in image.size), Image.Resampling.BICUBIC)
        left, top = (round((side - 16) / 2) for side in image.size)
        images.append(np.asarray(image.crop((left, top, left + 16, top + 16)), "float32"))
    pixels = np.stack(images)
    return pixels, (pixels / 255 - np.float32(SPEC.mean)) / np.float32(SPEC.std)


def probabilities(model, photos, spec=SPEC):
    pixels, inputs = prepared(photos, spec)
    if model_interface(model).takes_pixels:
        inputs = pixels[..., :: -1 if spec.channel_order == "BGR" else 1]
    return np.asarray(named_outputs(model)(inputs)["probabilities"])


@KINDS
@pytest.mark.parametrize("include_preprocessing", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_prediction_and_evaluation(include_preprocessing, spec, photos, tmp_path):
    from keras_vit.evaluate.accuracy import evaluate_model
    from keras_vit.train.recipe import Data

    model = built(include_preprocessing, spec)
    expected = probabilities(model, photos, spec)
    rows = predict(model, files_of(photos))
    assert max_difference(_scores(rows), expected) < 1e-5
    data = Data("folder", str(photos), train_split="test[:100%]", test_split="test[:100%]", batch_size=3)
    truth = np.array([LABELS.index(file.parent.name) for file in files_of(photos)])
    results = evaluate_model(model, _folders(data, photos, tmp_path))
    assert results["loss"] == pytest.approx(-np.log(expected[np.arange(8), truth]).mean(), abs=1e-4)


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


@pytest.mark.broad
@KINDS
@pytest.mark.parametrize("include_preprocessing", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_an_export(include_preprocessing, spec, photos, tmp_path):
    import tensorflow as tf

    from keras_vit.export import export

    model = built(include_preprocessing, spec)
    interface = model_interface(model)
    images, labels = load_folder(photos, interface, 100)
    assert max_difference(images, prepared(photos, spec)[0]) == 0 and len(labels) == 8
    report = export(model, tmp_path / "out", images, labels, formats=["saved_model"])
    manifest = json.loads((report.path / "manifest.json").read_text())
    assert ImageSpec(**manifest["input"]["preprocessing"]) == spec
    low, high = manifest["input"]["range"]
    ends = [(black - np.array(spec.mean)) / np.array(spec.std) for black in (0, 1)]
    expected = (0, 255) if include_preprocessing else (ends[0].min(), ends[1].max())
    assert (low, high) == pytest.approx(expected, abs=1e-5)
    assert f"- Preprocessing: {spec}." in (report.path / "model_card.md").read_text()
    expected = probabilities(model, photos, spec)
    signature = tf.saved_model.load(str(report.path)).signatures["classify_bytes"]
    received = signature(image_bytes=tf.constant([file.read_bytes() for file in files_of(photos)]))
    assert max_difference(received["probabilities"], expected) < 1e-4
    loaded = load_predictor(report.path)
    assert loaded.interface.preprocessing == spec
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


@pytest.mark.broad
@KINDS
def test_analysis(spec, photos, tmp_path):
    model = built(spec=spec)
    _, inputs = prepared(photos, spec)
    expected = analyze(model, inputs, tmp_path / "a", names=[f.name for f in files_of(photos)], parts=["attention"])
    received = analyze(model, [str(file) for file in files_of(photos)], tmp_path / "b", parts=["attention"])
    assert received["images"] == expected["images"]
    if spec is not SPEC:
        return
    pixels = load_image(files_of(photos)[0], (16, 16, 3), SPEC)
    with pytest.raises(ValueError, match=r"images expected values in \[-2.12, 2.64\], as `model.preprocessing.norm"):
        analyze(model, pixels[None], tmp_path / "c")
    bright = np.full((1, 16, 16, 3), 2.6, "float32")  # within the range, though above 1
    analyze(model, bright, tmp_path / "d", parts=["attention"])


@KINDS
@pytest.mark.parametrize("include_preprocessing", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_images_of_calibration(include_preprocessing, spec, photos):
    from keras_vit.export.parity import take_pixels

    model = built(include_preprocessing, spec)
    images = images_to_calibrate(model, str(photos), None, None)
    assert max_difference(images, prepared(photos, spec)[0]) == 0
    _, inputs = take_pixels(model_interface(model), images, "calibration")
    assert max_difference(named_outputs(model)(inputs)["probabilities"], probabilities(model, photos, spec)) < 1e-5


@pytest.mark.broad
@KINDS
def test_a_saved_model_and_its_config(spec, tmp_path):
    for include_preprocessing in (False, True):
        model = built(include_preprocessing, spec)
        model.save(tmp_path / "model.keras")
        for read in (keras.saving.load_model, keras_vit.load_model, keras_vit.from_pretrained):
            assert keras_vit.preprocessing_of(read(tmp_path / "model.keras")) == spec
        assert keras_vit.preprocessing_of(keras.models.model_from_json(model.to_json())) == spec


@pytest.mark.large
def test_a_server(photos, tmp_path):
    from keras_vit.export import export

    for name, spec in {"center": SPEC, **OTHERS}.items():
        model = built(spec=spec)
        report = export(model, tmp_path / name.replace(" ", "_"), formats=["saved_model"])
        with started([report.path.parent]) as server:
            rows = [{"image_bytes": b64(file.read_bytes())} for file in files_of(photos)]
            body = {"signature_name": "classify_bytes", "instances": rows}
            status, answer = server.predict(report.path.parent.name, body)
        assert status == 200, answer
        received = np.array([row["probabilities"] for row in answer["predictions"]])
        assert max_difference(received, probabilities(model, photos, spec)) < 1e-4


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
@pytest.mark.parametrize(
    ("spec", "resize"), [(SPEC, None), (SPEC, 20), *((spec, None) for spec in OTHERS.values()), (OTHERS["squash"], 20)]
)
def test_a_recipe_starts_from_the_preprocessing_of_its_weights(spec, resize, photos, tmp_path):
    """Training normalises as the weights state; the finished model evaluates as the run did."""
    from keras_vit.data.pipeline import training_batches
    from keras_vit.data.sources import open_data
    from keras_vit.evaluate.accuracy import evaluate_model
    from keras_vit.train.engine import train
    from keras_vit.train.recipe import Augment, Data, Model, Optimizer, Recipe

    built(spec=spec).save(tmp_path / "start.keras")
    data = replace(_folders(Data("folder", batch_size=4), photos, tmp_path), resize=resize)
    settings = Model(ROW, weights=str(tmp_path / "start.keras"), image_size=16)
    recipe = Recipe("tuned", settings, data, Augment(crop="none"), Optimizer("sgd", learning_rate=1e-3), steps=2)
    summary = train(recipe, tmp_path / "run")
    model = keras_vit.load_model(tmp_path / "run")
    kept = ImageSpec((16, 16), mean=spec.mean, std=spec.std, channel_order=spec.channel_order)
    assert model.preprocessing == (spec if resize is None else kept)
    results = evaluate_model(model, data)
    assert results["accuracy"] == summary["accuracy"]
    examples = open_data(data, "train", None, ())
    batches = [
        next(iter(training_batches(examples, Augment(crop="none"), batch_size=8, input_shape=(16, 16, 3), epochs=1,
                                   scale=scale, spec=spec)))[0] for scale in (False, True)
    ]  # fmt: skip
    normalized = (np.asarray(batches[0]) / 255 - np.float32(spec.mean)) / np.float32(spec.std)
    assert max_difference(normalized, batches[1]) < 1e-5
