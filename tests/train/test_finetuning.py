"""What a run starts from: weights with their conventions, the new head, frozen layers, every kind of row."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import first_quick, max_difference, needs_tensorflow, quick_first, randomise

import keras_vit
from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.models.variants import ResNetStem
from keras_vit.train.engine import train
from keras_vit.train.model import build_model
from keras_vit.train.optim.freeze import trained_variables
from keras_vit.train.optim.layer_decay import layer_shares
from keras_vit.train.recipe import Augment, BiTVariant, Data, Loss, Model, Optimizer, Recipe, Variant
from keras_vit.train.state import first_state
from keras_vit.weights import save_weights

pytestmark = needs_tensorflow
ROW = Variant("tiny", width=8, depth=3, mlp_dim=16, num_heads=2, patch_size=4, image_size=16)
LABELS = ("a", "b", "c")


def recipe(**settings):
    return Recipe("tiny", Model(ROW, **settings))


@pytest.fixture
def official(tmp_path):
    """A pre-trained model with a representation layer, and its file."""
    model = randomise(keras_vit.build(ROW, classes=7, representation_size=8))
    save_weights(model, tmp_path / "official.npz")
    return model, str(tmp_path / "official.npz")


def test_representation_layer_is_dropped_or_kept(official):
    model, file = official
    images = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype("float32")
    for kept in (None, 8):
        started = build_model(recipe(weights=file, representation_size=kept), LABELS)
        assert ("pre_logits" in {layer.name for layer in started.layers}) == bool(kept)
        last = "pre_logits" if kept else "pooling"
        ours, theirs = (keras.Model(m.input, m.get_layer(last).output)(images) for m in (started, model))
        assert max_difference(ours, theirs) < 1e-6
        assert not np.any(started.get_layer("head").kernel) and np.allclose(started(images), 1 / 3)


def test_another_resolution_resizes_the_positions(official):
    model, file = official
    started = build_model(recipe(weights=file, image_size=(24, 16)), LABELS)
    free = keras_vit.build(ROW, input_shape=(None, None, 3), include_top=False)
    free.set_weights(keras.Model(model.input, model.get_layer("pooling").output).get_weights())
    images = np.random.default_rng(0).normal(size=(2, 24, 16, 3)).astype("float32")
    ours = keras.Model(started.input, started.get_layer("pooling").output)(images)
    assert max_difference(ours, free(images)) < 1e-6


@pytest.mark.parametrize(
    ("layout", "activation", "epsilon"),
    first_quick([("hf", "gelu", 1e-12), (None, "gelu", 1e-12), ("npz", "gelu_tanh", 1e-6), ("timm", "gelu", 1e-6)], 2),
)
def test_a_files_conventions_are_trained_with(tmp_path, layout, activation, epsilon):
    path = tmp_path / ("model" + {"npz": ".npz", None: ".keras"}.get(layout, ".safetensors"))
    origin = keras_vit.build(ROW, classes=7, activation=activation, layer_norm_epsilon=epsilon)
    save_weights(randomise(origin), path, layout=layout)
    started = build_model(recipe(weights=str(path if layout else tmp_path)), LABELS)  # a run's folder holds a .keras
    block = started.get_layer("encoder_block_00")
    assert (block.activation, block.layer_norm_epsilon) == (activation, epsilon)
    images = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype("float32")
    ours, theirs = (keras.Model(m.input, m.get_layer("pooling").output)(images) for m in (started, origin))
    assert max_difference(ours, theirs) < 1e-6


def test_a_name_with_a_tag_means_the_published_file(monkeypatch):
    asked = []

    def follow(source, row):
        asked.append(source)
        return row, {}

    monkeypatch.setattr("keras_vit.train.model.follow_conventions", follow)
    monkeypatch.setattr("keras_vit.train.model.load_weights", lambda model, source: asked.append(source))
    build_model(Recipe("t", Model("vit_tiny_patch16_224.augreg_in21k")), LABELS)
    assert asked == ["vit_tiny_patch16_224.augreg_in21k"] * 2


def test_head_bias():
    started = build_model(replace(recipe(head_bias=-10.0), loss=Loss("sigmoid")), LABELS)
    assert np.allclose(started.get_layer("head").bias, -10) and not np.any(started.get_layer("head").kernel)
    assert np.allclose(started(np.zeros((1, 16, 16, 3))), 1 / (1 + np.exp(10)))


def test_frozen_layers_stay_and_have_no_slots(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
    frozen = Recipe(
        "frozen",
        Model(ROW, channels=1, freeze=("embedding", "position_embedding", "encoder_block_0[01]")),
        Data("digits", train_split="train[:5%]", test_split="test[:20%]", batch_size=16),
        optimizer=Optimizer("adamw", learning_rate=0.05, weight_decay=0.5),
        steps=3,
    )
    labels = tuple("0123456789")
    state = first_state(frozen, labels, 3, tf.distribute.get_strategy())
    still = {"embedding", "position_embedding", "encoder_block_00", "encoder_block_01"}
    owners = {variable.path.split("/")[0] for variable in state.trained}
    assert owners == {"class_token", "encoder_block_02", "encoder_norm", "head"}
    assert len(state.optimizer.variables) == 1 + 2 * len(state.trained)  # the step; two means for each
    train(frozen, tmp_path / "run")
    after = keras.saving.load_model(tmp_path / "run" / "model.keras", compile=False)
    for before, now in zip(state.model.layers, after.layers, strict=True):
        same = [np.array_equal(a, b) for a, b in zip(before.get_weights(), now.get_weights(), strict=True)]
        assert all(same) if before.name in still else not any(same) or not same, before.name
        assert now.trainable


def test_patterns_must_match_and_leave_something():
    model = keras_vit.build(ROW, classes=3)
    with pytest.raises(ValueError, match="freeze expected patterns that match layers .* received 'encoder_blok"):
        trained_variables(model, ("encoder_blok_*", "head"))
    with pytest.raises(ValueError, match="freeze expected patterns .* leave one .* received '\\*'"):
        trained_variables(model, ("*",))


def test_layer_decay_counts_from_the_head():
    """The numbers of BEiT's own code for three blocks: 0 in front, 1 to 3, and 4 behind them."""
    shares = layer_shares(keras_vit.build(ROW, classes=3), 0.5)
    expected = {
        "embedding": 4, "class_token": 4, "position_embedding": 4, "encoder_block_00": 3, "encoder_block_01": 2,
        "encoder_block_02": 1, "encoder_norm": 0, "head": 0,
    }  # fmt: skip
    assert {name: shares[name] for name in expected} == {name: 0.5**power for name, power in expected.items()}


def test_layer_decay_counts_a_hybrids_units_too():
    shares = layer_shares(keras_vit.build(HYBRID, classes=3), 0.5)
    names = ("stem_root", "stem_stage1_unit1", "stem_stage2_unit1", "embedding", "encoder_block_00")
    assert [shares[name] for name in names] == [0.5**power for power in (6, 5, 4, 4, 3)]


HYBRID = replace(ROW, stem=ResNetStem((1, 1), 0.5), patch_size=1)
BIT = BiTVariant("small", (1, 1), 0.5, image_size=16)


@pytest.mark.broad
@pytest.mark.parametrize("row", quick_first([HYBRID, BIT], [BIT]), ids=["hybrid", "bit"])
def test_the_convolutional_rows_train(tmp_path, row):
    pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
    short = Recipe(
        "conv",
        Model(row, channels=1),
        Data("digits", train_split="train[:10%]", test_split="test[:40%]", batch_size=16),
        optimizer=Optimizer("sgd", learning_rate=0.05, clip_norm=1.0),
        epochs=5,
    )
    assert train(short, tmp_path / "run")["accuracy"] > 0.4


def test_a_bit_row_refuses_what_it_lacks():
    with pytest.raises(ValueError, match="dropout_rate expected 0.0 with small, which has none, received 0.1"):
        build_model(Recipe("t", Model(BIT, dropout_rate=0.1)), LABELS)


def test_a_bit_file_starts_a_run(tmp_path, monkeypatch):
    origin = randomise(keras_vit.build(BIT, classes=7))
    save_weights(origin, tmp_path / "bit.npz")
    started = build_model(Recipe("t", Model(BIT, weights=str(tmp_path / "bit.npz"))), LABELS)
    assert np.array_equal(started.get_layer("root").kernel, origin.get_layer("root").kernel)
    timm = {"weight_epsilon": 1e-8}
    monkeypatch.setattr("keras_vit.models.conventions.conventions_of", lambda *_: timm)
    started = build_model(Recipe("t", Model(BIT, weights=str(tmp_path / "bit.npz"))), LABELS)
    assert started.get_layer("root").epsilon == 1e-8


@pytest.mark.large  # without: the recipe image_folder.py, from a file of timm's
def test_fine_tuning_on_a_folder_from_an_official_file(tmp_path):
    """Pre-trained weights at another resolution, a new classifier, one's own pictures in several formats."""
    pretrained = keras_vit.build(ROW, input_shape=(32, 32, 3), classes=7)
    for weight in pretrained.weights:
        weight.assign(weight + 0.01)
    save_weights(pretrained, tmp_path / "official.npz")
    rng = np.random.default_rng(0)
    for label, colour in (("night", 20), ("day", 200)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(20):
            pixels = np.clip(rng.normal(colour, 20, (10 + i, 20, 3)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{i}{('.png', '.jpg')[i % 2]}")
    photos = Recipe(
        "photos",
        Model(ROW, weights=str(tmp_path / "official.npz"), include_preprocessing=True),
        Data("folder", batch_size=8),
        Augment(crop="inception", crop_area=0.3, flip=True),
        Optimizer("sgd", learning_rate=0.05),
        epochs=8,
        precision="mixed_bfloat16",
    )
    started = build_model(photos, ("day", "night"))
    assert np.array_equal(started.get_layer("embedding").kernel, pretrained.get_layer("embedding").kernel)
    assert not np.any(started.get_layer("head").kernel)
    summary = train(photos, tmp_path / "run", data_dir=str(tmp_path / "photos"))
    assert summary["accuracy"] == 1.0 and summary["labels"] == ["day", "night"] and summary["test_examples"] == 8
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", compile=False)
    assert evaluate_model(model, photos.data, str(tmp_path / "photos"))["accuracy"] == 1.0
    with pytest.raises(ValueError, match=r"data expected the model's 2 classes \(day, night\), found 10 \(0, 1, 2"):
        evaluate_model(model, Data("digits"))

    (tmp_path / "photos" / "day" / "0.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="data expected an image file .* received .*0.png"):
        train(photos, tmp_path / "broken", data_dir=str(tmp_path / "photos"))
