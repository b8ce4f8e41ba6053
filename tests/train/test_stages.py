"""Stages of other sizes share the run's weights: what they compute, what moves, and that a stop changes nothing."""

import os
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, needs_tensorflow, randomise
from train import tiny

import keras_vit
from keras_vit.data.arrays import from_arrays
from keras_vit.train import engine
from keras_vit.train.datasets import Datasets
from keras_vit.train.engine import train
from keras_vit.train.optim.freeze import trained_variables
from keras_vit.train.recipe import Augment, Curriculum, Stage
from keras_vit.train.stages import Forward, Span, spans_of

pytestmark = needs_tensorflow
ROW = replace(tiny.ROW, image_size=16)
RECIPE = replace(
    tiny.RECIPE,
    name="growing",
    model=replace(tiny.RECIPE.model, variant=replace(ROW, depth=1)),
    augment=Augment(shift=0.1, mixup=0.2),
    curriculum=Curriculum((Stage(0.3, image_size=8), Stage(0.6, patch_size=8))),
    steps=10,
)


def logits(model, span, images, recompute=False):
    trained = trained_variables(model, ())
    values = [tf.convert_to_tensor(variable.value) for variable in trained]
    return Forward(model, trained, span, recompute)(values, [], images)


def test_spans_cover_the_run():
    assert spans_of(RECIPE, 10) == [
        Span(0, 3, (8, 8, 1)), Span(3, 6, (16, 16, 1), (8, 8)), Span(6, 10, (16, 16, 1)),
    ]  # fmt: skip
    assert spans_of(replace(RECIPE, curriculum=Curriculum()), 10) == [Span(0, 10, (16, 16, 1))]


def test_a_smaller_stage_sees_as_much_of_the_image():
    """A window of 16 of 32 pixels is half of the width, and so it stays at 8 pixels."""
    ramp = from_arrays(
        np.tile(np.arange(0, 256, 8, dtype="uint8")[None, None, :, None], (16, 32, 1, 1)), np.arange(16) % 2
    )
    recipe = replace(RECIPE, augment=Augment("resize", crop_resize=32))
    data = Datasets(recipe, ramp, ramp, ramp)
    for size in (16, 8):
        images, _ = next(iter(data.batches((size, size, 1), 0)((0, 1))))
        spread = 127.5 * (images[:, 0, -1, 0] - images[:, 0, 0, 0])  # of grey, from one side to the other
        np.testing.assert_allclose(spread, 8 * 32 / 2 * (size - 1) / size, atol=5)


@pytest.mark.parametrize(
    "changes",
    first_quick(
        [
            {"positions": "learned"},
            {"positions": "sincos2d"},
            {"positions": "2d", "positions_at": "shared"},
            {"positions": "learned", "positions_at": "layers"},
            {"positions": "none", "axial": True},
        ]
    ),
    ids=str,
)
def test_another_image_size_is_the_model_of_free_size(changes):
    """The model built with a free image size resizes its positions in the graph; its own tests hold that."""
    row = replace(ROW, **changes)
    options = {"classes": 3, "classifier_activation": None, "pooling": "gap"}
    model = randomise(keras_vit.build(row, input_shape=(16, 16, 1), **options))
    free = keras_vit.build(row, input_shape=(None, None, 1), **options)
    free.set_weights(model.get_weights())
    images = np.random.default_rng(0).normal(size=(2, 8, 12, 1)).astype("float32")
    assert max_difference(logits(model, Span(0, 1, (8, 12, 1)), images), free(images)) < 1e-6


def test_relative_positions_stay_at_their_image_size():
    model = keras_vit.build(replace(ROW, positions="relative"), input_shape=(16, 16, 1), classes=3)
    with pytest.raises(ValueError, match="image_size expected the model's own in a stage of tiny, whose relative pos"):
        Forward(model, model.trainable_variables, Span(0, 1, (8, 8, 1)))


def test_another_patch_size_is_the_resampled_kernel_and_grid():
    """`load_weights` resamples both the same way where a file has another patch."""
    model = randomise(keras_vit.build(ROW, input_shape=(16, 16, 1), classes=3, classifier_activation=None))
    other = keras_vit.build(ROW, input_shape=(16, 16, 1), classes=3, patch_size=8, classifier_activation=None)
    for name in ("class_token", "encoder_block_00", "encoder_block_01", "encoder_norm", "head"):
        other.get_layer(name).set_weights(model.get_layer(name).get_weights())
    from keras_vit.weights.resize import resize_grid, resize_kernel

    kernel, bias = model.get_layer("embedding").get_weights()
    other.get_layer("embedding").set_weights([resize_kernel(kernel, (8, 8)), bias])
    (positions,) = model.get_layer("position_embedding").get_weights()
    grid = resize_grid(positions[0, 1:].reshape(4, 4, -1), (2, 2)).reshape(1, 4, -1)
    other.get_layer("position_embedding").set_weights([np.concatenate([positions[:, :1], grid], axis=1)])
    images = np.random.default_rng(0).normal(size=(2, 16, 16, 1)).astype("float32")
    assert max_difference(logits(model, Span(0, 1, (16, 16, 1), (8, 8)), images), other(images)) < 1e-5


def test_a_stage_has_the_models_registers_and_patches_without_bias():
    row = replace(ROW, registers=2, prefix_positions=False, pre_norm=True, patch_bias=False, layer_scale=0.5)
    options = {"input_shape": (16, 16, 1), "classes": 3, "classifier_activation": None}
    model, other = randomise(keras_vit.build(row, **options)), keras_vit.build(row, **options, patch_size=8)
    from keras_vit.weights.resize import resize_grid, resize_kernel

    weights = {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}
    weights["embedding/kernel"] = resize_kernel(weights["embedding/kernel"], (8, 8))
    grid = weights["position_embedding/embedding"].reshape(4, 4, -1)
    weights["position_embedding/embedding"] = resize_grid(grid, (2, 2)).reshape(1, 4, -1)
    other.set_weights([weights[weight.path] for weight in other.weights])
    images = np.random.default_rng(0).normal(size=(2, 16, 16, 1)).astype("float32")
    assert max_difference(logits(model, Span(0, 1, (16, 16, 1), (8, 8)), images), other(images)) < 1e-5


def test_every_stage_moves_every_weight():
    model = randomise(keras_vit.build(ROW, input_shape=(16, 16, 1), classes=3, classifier_activation=None))
    trained = trained_variables(model, ())
    for span in spans_of(RECIPE, 10):
        images = np.random.default_rng(0).normal(size=(2, *span.input_shape)).astype("float32")
        values = [tf.convert_to_tensor(variable.value) for variable in trained]
        forward = Forward(model, trained, span)
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(forward(values, [], images) ** 2)
        for variable, gradient in zip(trained, tape.gradient(loss, values), strict=True):
            assert gradient is not None and float(tf.reduce_max(tf.abs(gradient))) > 0, (span, variable.path)


def test_a_row_without_patches_has_no_patch_stages():
    row = keras_vit.BiTVariant("small", (1, 1), 0.5, image_size=32)
    model = keras_vit.build(row, classes=3)
    with pytest.raises(ValueError, match="patch_size expected None in a stage of small, which has no patches"):
        Forward(model, model.trainable_variables, Span(0, 1, (32, 32, 3), (8, 8)))


@pytest.mark.large  # test_engine.py has the same of one stage
def test_stopped_in_every_stage_it_goes_on_to_the_same_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
    train(RECIPE, tmp_path / "whole")
    for _ in range(3):  # at steps 2, 4 and 6: inside a stage, and at the end of one
        with monkeypatch.context() as patch:
            calls = []
            save = engine.Checkpoints.save

            def saving(self, step, save=save, calls=calls):
                save(self, step)
                calls.append(step)
                if len(calls) == 1:
                    os.kill(os.getpid(), signal.SIGTERM)

            patch.setattr(engine.Checkpoints, "save", saving)
            with pytest.raises(SystemExit):
                train(RECIPE, tmp_path / "parts")
    summary = train(RECIPE, tmp_path / "parts")
    whole, parts = (
        keras.saving.load_model(tmp_path / name / "model.keras", compile=False) for name in ("whole", "parts")
    )
    assert all(np.array_equal(a, b) for a, b in zip(whole.get_weights(), parts.get_weights(), strict=True))
    assert summary["steps"] == 10 and summary["epochs"] == 3
    assert whole.input_shape == (None, 16, 16, 1)
