"""Pictures of layer outputs during training."""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import needs_tensorflow

from keras_vit.train.engine import train
from keras_vit.train.log import pictures
from keras_vit.train.recipe import Data, Evaluate, Model, Optimizer, Recipe, Variant

pytestmark = [needs_tensorflow]
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")

ROW = Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
DATA = Data("digits", train_split="train[:5%]", test_split="test[:5%]", batch_size=16)  # 72 examples: 4 steps an epoch


def run(workdir, **evaluate):
    train(Recipe("tiny", Model(ROW, channels=1), DATA, optimizer=Optimizer(learning_rate=1e-2),
                 evaluate=Evaluate(**evaluate), epochs=2), workdir)  # fmt: skip
    images = {}
    for path in (workdir / "tensorboard").iterdir():
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "images":
                    images[event.step, value.tag] = tf.make_ndarray(value.tensor)
    return keras.saving.load_model(workdir / "model.keras", compile=False), images


@pytest.mark.broad
def test_every_few_steps_there_is_a_picture_and_training_is_what_it_was(tmp_path):
    plain, none = run(tmp_path / "plain")
    assert not none
    drawn, images = run(tmp_path / "drawn", pictures=3)
    assert sorted(images) == [(3, "layer_outputs"), (6, "layer_outputs")]
    for width, height, png in images.values():
        with Image.open(io.BytesIO(png)) as picture:
            assert picture.size == (int(width), int(height))
            assert np.asarray(picture.convert("L")).std() > 5
    assert images[3, "layer_outputs"][2] != images[6, "layer_outputs"][2]
    assert all(np.array_equal(*pair) for pair in zip(plain.get_weights(), drawn.get_weights(), strict=True))


def test_without_matplotlib_a_run_says_so_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="evaluate.pictures needs Matplotlib, found none"):
        run(tmp_path / "run", pictures=3)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_the_field_is_a_number_of_steps():
    with pytest.raises(ValueError, match="pictures expected an int of at least 0, received -1"):
        Evaluate(pictures=-1)
