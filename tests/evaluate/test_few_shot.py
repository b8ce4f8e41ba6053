"""Few-shot evaluation during a run: heads fitted to a model's features."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit.data import broken
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.examples import Examples, in_memory
from keras_vit.data.sources import open_split
from keras_vit.evaluate.few_shot import SEEDS, feature_function, few_shot, replace_images
from keras_vit.train import datasets
from keras_vit.train.datasets import Datasets
from keras_vit.train.engine import train
from keras_vit.train.recipe import Data, Evaluate, Model, Optimizer, Recipe, Variant

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
ROW = Variant("tiny", width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)


def batches_of(examples):
    return evaluation_batches(examples, batch_size=50, input_shape=(8, 8, 1))


@pytest.fixture(scope="module")
def digits():
    return open_split("digits", "train"), open_split("digits", "test[:50%]")


def test_the_accuracy_is_that_of_ridge_regression_on_the_pooled_features(digits):
    """Features, draws and heads once more, with scikit-learn's Ridge."""
    linear = pytest.importorskip("sklearn.linear_model")
    model = randomise(keras_vit.build(ROW, input_shape=(8, 8, 1), classes=10))
    found = few_shot(replace_images(feature_function(model)), *digits, (1, 5), batches_of)
    frozen = keras.Model(model.input, model.get_layer("pooling").output)
    (x, y), (x_test, y_test) = (arrays(frozen, examples) for examples in digits)
    expected = {}
    for count in (1, 5):
        right = []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            chosen = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:count] for k in range(10)])
            mean, std = x[chosen].mean(axis=0), x[chosen].std(axis=0) + 1e-5
            rows = lambda x: np.c_[(x - mean) / std, np.full(len(x), 100.0)]  # noqa: E731,B023
            ridge = linear.Ridge(alpha=2.0**10, fit_intercept=False, solver="cholesky")
            ridge.fit(rows(x[chosen]), 2 * np.eye(10)[y[chosen]] - 1)
            right.append(np.mean(ridge.predict(rows(x_test)).argmax(axis=1) == y_test))
        expected[f"few_shot_{count}"] = np.mean(right)
    assert found == pytest.approx(expected, abs=0.006)  # one image of 180: features are float32
    assert found["few_shot_5"] > 0.3


def arrays(model, examples):
    """Features and labels of a split, in the order of its stream."""
    rows = list(examples.stream().as_numpy_iterator())
    images = np.stack([image for _, image, _ in rows]).astype("float32") / 127.5 - 1
    return np.asarray(model(images), "float64"), np.array([label for *_, label in rows])


@pytest.mark.broad
def test_a_run_reports_it_with_every_evaluation(tmp_path):
    recipe = Recipe(
        "few",
        Model(ROW, channels=1),
        Data("digits", train_split="train[:20%]", test_split="test[:50%]", batch_size=32),
        optimizer=Optimizer(learning_rate=5e-3),
        evaluate=Evaluate(
            every=1,
            metrics=("accuracy", "top5", "calibration"),
            few_shot="digits",
            shots=(2, 10),
            few_shot_splits=("train", "test[:50%]"),
        ),
        epochs=2,
    )
    summary = train(recipe, tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    names = ("accuracy", "top5", "calibration", "few_shot_2", "few_shot_10")
    for name in names:
        values = [(row["step"], row["value"]) for row in rows if (row["split"], row["name"]) == ("test", name)]
        assert [step for step, _ in values] == [9, 18] and values[-1][1] == summary[name]
    assert 0.2 < summary["few_shot_2"] < summary["few_shot_10"] <= 1


def test_its_images_are_squeezed_and_lie_where_their_own_folder_is(tmp_path):
    """Wide images from a folder of their own, while the run's data is read elsewhere and shortens its images."""
    rng = np.random.default_rng(0)
    for label in "ab":
        (tmp_path / "few/train" / label).mkdir(parents=True)
        pixels = rng.integers(0, 256, (10, 30, 3), "uint8")
        Image.fromarray(pixels).save(tmp_path / "few/train" / label / "1.png")
    few = Evaluate(few_shot="folder", few_shot_splits=("train", "train"), few_shot_directory=str(tmp_path / "few"))
    recipe = Recipe("few", Model(ROW), Data("digits", batch_size=2, resize=8), evaluate=few)
    data = Datasets.open(recipe, data_dir="elsewhere")
    images, *_ = next(iter(data.few_shot_evaluation(data.few_shot[0])))
    own = np.stack([np.array(Image.open(tmp_path / f"few/train/{label}/1.png")) for label in "ab"]).astype("float32")
    middle = tf.image.resize(own, (9, 9), antialias=True)[:, :8, :8]
    np.testing.assert_allclose(images, middle / 127.5 - 1.0, atol=1e-5)


@pytest.mark.broad
def test_its_broken_files_are_left_out_where_the_recipe_skips_them(tmp_path, monkeypatch):
    monkeypatch.setattr(broken, "MOST", 0.5)
    for label in "ab":
        (tmp_path / "train" / label).mkdir(parents=True)
        for i in range(2):
            Image.fromarray(np.full((8, 8, 3), 100 * i, "uint8")).save(tmp_path / "train" / label / f"{i}.png")
    (tmp_path / "train" / "a" / "0.png").write_bytes(b"no picture")
    few = Evaluate(few_shot="folder", few_shot_splits=("train", "train"), few_shot_directory=str(tmp_path))
    recipe = Recipe("few", Model(ROW), Data("digits", batch_size=2, on_error="skip"), evaluate=few)
    with pytest.warns(UserWarning, match="left out, because they cannot be decoded: 1 of the 4 files of train"):
        data = Datasets.open(recipe)
    assert [examples.count for examples in data.few_shot] == [3, 3]
    weights = [weights.numpy() for _, _, weights in data.few_shot_evaluation(data.few_shot[0])]
    assert np.concatenate(weights).sum() == 3


def test_its_data_is_held_by_the_recipes_shuffle(monkeypatch):
    """How many encoded images of a TFDS source a run keeps in memory; and by its `exif`."""
    asked = []
    monkeypatch.setattr(datasets, "open_split", lambda *given, exif: asked.append((*given, exif)) or open_split(*given))
    few = Evaluate(few_shot="digits", few_shot_splits=("train[:5%]", "test[:5%]"))
    Datasets.open(
        Recipe("few", Model(ROW, channels=1), Data("digits", batch_size=2, shuffle=7, exif=False), evaluate=few)
    )
    assert [given[1:] for given in asked] == [(split, None, 7, "stop", False) for split in few.few_shot_splits]


@pytest.mark.broad
def test_what_is_held_out_is_measured_at_the_end_of_a_run_without_a_curve(tmp_path):
    data = Data("digits", train_split="train[:5%]", test_split="test[:5%]", batch_size=16)
    train(Recipe("held", Model(ROW, channels=1), data, evaluate=Evaluate(split="train[90%:]"), epochs=1), tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["split"] for row in rows if row["name"] == "accuracy" and row["split"] != "train"] == [
        "validation",
        "test",
    ]


def test_several_classes_an_image_are_refused():
    images = np.zeros((2, 8, 8, 1), "uint8")
    one = in_memory(images, np.array([0, 1]), ("0", "1"))
    several = Examples(2, ("0", "1"), lambda seed=None: tf.data.Dataset.range(2), encoded=False, multi=True)
    model = keras_vit.build(ROW, input_shape=(8, 8, 1), classes=2)
    with pytest.raises(ValueError, match="few_shot expected one class per image"):
        few_shot(replace_images(feature_function(model)), several, one, (1,), batches_of)
