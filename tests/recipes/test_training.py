"""The recipes for small data, run on real images."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support import ROOT, needs_tensorflow, randomise

import keras_vit
from keras_vit.train.engine import train
from keras_vit.train.recipe import Variant
from keras_vit.train.recipe.file import load_recipe, override

pytestmark = needs_tensorflow
TFDS = ROOT.parent / "shared" / "data" / "tfds"


@pytest.mark.large
def test_cifar10_from_scratch_beats_a_linear_classifier(tmp_path):
    """Three epochs at half the size, which take some minutes, beside ridge regression on the whole images."""
    if not TFDS.is_dir():
        pytest.skip("CIFAR-10 in TFDS's format is not at hand")
    pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    from keras_vit.data.sources import open_data

    recipe = override(
        load_recipe(ROOT / "recipes" / "cifar10.py"),
        ["epochs=3", "schedule.warmup_steps=100", "evaluate.every=0", "average.decay=0.99", "curriculum.stages=[]",
         "model.image_size=16"],
    )  # fmt: skip
    summary = train(recipe, tmp_path / "run", data_dir=str(TFDS))
    assert (summary["train_examples"], summary["test_examples"]) == (50_000, 10_000)

    def pixels(split):
        rows = [row[1:] for row in open_data(recipe.data, split, str(TFDS)).images().as_numpy_iterator()]
        return np.stack([_decoded(image) for image, _ in rows]).reshape(len(rows), -1), np.array([y for _, y in rows])

    (x, y), (x_test, y_test) = pixels(recipe.data.train_split), pixels(recipe.data.test_split)
    linear = linear_model.RidgeClassifier(alpha=1000.0).fit(x, y).score(x_test, y_test)
    assert linear > 0.25 and summary["accuracy"] > linear + 0.05, (summary["accuracy"], linear)


def _decoded(image):
    import tensorflow as tf

    return np.asarray(tf.io.decode_image(image) if isinstance(image, bytes) else image, "float32") / 255


@pytest.mark.large
def test_digits_reach_their_figure(tmp_path):
    """What `make demo` trains."""
    pytest.importorskip("sklearn", reason="extra `recipes` is not installed")
    assert train(load_recipe(ROOT / "recipes" / "digits.py"), tmp_path / "run")["accuracy"] >= 0.975


@pytest.mark.broad
def test_image_folder_fine_tunes_from_a_file(tmp_path):
    row = Variant("small", width=16, depth=2, mlp_dim=32, num_heads=2, patch_size=8, image_size=16)
    keras_vit.save_weights(randomise(keras_vit.build(row, classes=7)), tmp_path / "small.safetensors", layout="timm")
    rng = np.random.default_rng(0)
    for label, colour in (("night", 20), ("day", 200)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(20):
            pixels = np.clip(rng.normal(colour, 20, (30 + i, 40, 3)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{i}.jpg")
    recipe = load_recipe(ROOT / "recipes" / "image_folder.py")
    model = replace(recipe.model, variant=row, weights=str(tmp_path / "small.safetensors"), image_size=24)
    recipe = override(
        replace(recipe, model=model),
        ["data.batch_size=8", "data.resize=28", "schedule.warmup_steps=2", "optimizer.learning_rate=0.01"],
    )
    summary = train(recipe, tmp_path / "run", data_dir=str(tmp_path / "photos"))
    assert summary["labels"] == ["day", "night"] and summary["test_examples"] == 8 and summary["accuracy"] == 1.0
