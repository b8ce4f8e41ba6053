"""Batch norms in training: their moving averages, in parts, on replicas, frozen, after a stop."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow, run_python
from train import tiny
from train.test_engine import equal, stop_at
from train.test_step import IMAGES, LABELS, TARGETS, TWO_CPUS

from keras_vit.train import step
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.model import build_model
from keras_vit.train.moving import moving_averages
from keras_vit.train.recipe import Average, Data, EfficientNetVariant, Model, Optimizer, Recipe, Schedule
from keras_vit.train.recipe.file import from_json, to_json
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state

pytestmark = needs_tensorflow
ROW = EfficientNetVariant("tiny", 0.25, 0.1, image_size=8)
RECIPE = Recipe(
    "batch norms",
    Model(ROW, channels=1, pooling="gap"),
    Data("digits", batch_size=8),
    optimizer=Optimizer("sgd", learning_rate=0.1, momentum=0.0),
    schedule=Schedule("constant"),
)


def updated(recipe, strategy=None, steps=1):
    """The state after updates, on a strategy's devices."""
    strategy = strategy or tf.distribute.get_strategy()
    state = first_state(recipe, LABELS, 100, strategy)
    update = tf.function(step.Step(recipe, state, strategy, spans_of(recipe, 100)[0]))
    batches = tf.data.Dataset.from_tensors((IMAGES, TARGETS)).unbatch().batch(len(IMAGES), drop_remainder=True)
    for _ in range(steps):
        (batch,) = strategy.experimental_distribute_dataset(batches)
        assert float(update(*batch)[1]) == 1.0
    return state


def arrays(variables):
    return [np.asarray(variable) for variable in variables]


def by_keras(recipe, parts=(IMAGES,)):
    """The moving averages after Keras's own calls of the model in training, the mean over parts of a batch."""
    found = []
    for images in parts:
        keras.utils.set_random_seed(recipe.seed)
        model = build_model(recipe, LABELS)
        first = arrays(moving_averages(model))
        model(images, training=True)
        found.append(arrays(moving_averages(model)))
    assert all(max_difference(a, b) > 1e-6 for a, b in zip(first, found[0], strict=True) if a.any())
    return [np.mean(values, axis=0) for values in zip(*found, strict=True)]


@pytest.mark.broad
def test_an_update_moves_the_averages_as_keras_does():
    state = updated(RECIPE)
    assert max_difference(arrays(moving_averages(state.model)), by_keras(RECIPE)) < 1e-6


@pytest.mark.broad
def test_micro_batches_move_the_averages_to_the_mean_of_their_statistics():
    recipe = dataclasses.replace(RECIPE, optimizer=dataclasses.replace(RECIPE.optimizer, accumulate=2))
    state = updated(recipe)
    expected = by_keras(recipe, (IMAGES[:4], IMAGES[4:]))
    assert max_difference(arrays(moving_averages(state.model)), expected) < 1e-6
    assert max_difference(expected, by_keras(RECIPE)) > 1e-5


@pytest.mark.broad
def test_the_average_of_the_weights_follows_the_moving_averages():
    state = updated(dataclasses.replace(RECIPE, average=Average(0.5)))
    first = [0.0 if variable.name == "moving_mean" else 1.0 for variable in moving_averages(state.model)]
    moved, averaged = arrays(moving_averages(state.model)), arrays(moving_averages(state.average))
    expected = [start + 0.9 * (new - start) for start, new in zip(first, moved, strict=True)]  # 1 - (1 + 0) / (10 + 0)
    assert max_difference(averaged, expected) < 1e-6


@pytest.mark.broad
def test_frozen_batch_norms_compute_and_stay_as_in_inference():
    frozen = ("root*", "stage*", "last", "norm")
    recipe = dataclasses.replace(RECIPE, model=dataclasses.replace(RECIPE.model, freeze=frozen))
    state = updated(recipe, steps=2)
    keras.utils.set_random_seed(recipe.seed)
    before = build_model(recipe, LABELS)
    assert max_difference(arrays(moving_averages(state.model)), arrays(moving_averages(before))) == 0.0
    features = keras.Model(before.input, before.get_layer("pooling").output)(IMAGES, training=False)
    kernel, bias = tf.zeros((features.shape[1], 3)), tf.zeros(3)  # gradient descent of the head alone
    for _ in range(2):
        slope = (tf.nn.softmax(features @ kernel + bias) - TARGETS) / len(IMAGES)
        kernel, bias = kernel - 0.1 * tf.transpose(features) @ slope, bias - 0.1 * tf.reduce_sum(slope, 0)
    assert max_difference(np.asarray(state.model.get_layer("head").kernel), kernel) < 1e-6


REPLICAS = """
import dataclasses
from support import max_difference
from train.test_batch_norm import RECIPE, arrays, moving_averages, updated
from keras_vit.train.strategy import choose
parts = dataclasses.replace(RECIPE, optimizer=dataclasses.replace(RECIPE.optimizer, accumulate=2))
states = updated(parts), updated(RECIPE, choose("mirrored", 8).strategy)
moving = [arrays(moving_averages(state.model)) for state in states]
weights = [arrays(state.model.trainable_variables) for state in states]
print(len(moving[1]), max_difference(*moving) < 2e-6, max_difference(*weights) < 2e-5)
"""


@pytest.mark.broad
def test_replicas_move_the_averages_as_micro_batches_do():
    assert run_python(TWO_CPUS + REPLICAS).split() == ["44", "True", "True"]


@pytest.mark.broad
def test_a_stopped_run_resumes_exactly_and_its_model_is_saved_with_its_averages(tmp_path, monkeypatch):
    recipe = dataclasses.replace(
        tiny.RECIPE, model=Model(ROW, channels=1, pooling="gap", dropout_rate=0.1, drop_path_rate=0.2)
    )
    train(recipe, tmp_path / "whole")

    def die():
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        stop_at(patch, 2, die)
        with pytest.raises(RuntimeError, match="killed"):
            train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run")
    assert equal(tmp_path / "whole", tmp_path / "run")
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", compile=False)
    assert all(np.std(array) > 0 for array in arrays(moving_averages(model)))


@pytest.mark.broad
def test_a_dry_run_and_the_recipes_file_take_the_row():
    recipe = dataclasses.replace(RECIPE, model=Model("EfficientNet_B0", image_size=32, channels=1, pooling="gap"))
    assert np.isfinite(dry_run(recipe)["losses"]).all()
    assert from_json(to_json(RECIPE)) == RECIPE


@pytest.mark.parametrize(
    ("changes", "model", "sentence"),
    [
        ({"recompute": True}, {}, "recompute expected false with tiny, whose batch norms would be updated twice"),
        ({}, {"patch_size": 4}, "patch_size expected None with tiny, which has none, received 4"),
        ({}, {"attention_dropout_rate": 0.1}, "attention_dropout_rate expected 0.0 with tiny, which has none"),
        ({}, {"pooling": "map"}, "pooling expected 'token' with tiny, which has none, received 'map'"),
    ],
)
def test_what_a_convolutional_row_has_not_is_refused(changes, model, sentence):
    recipe = dataclasses.replace(RECIPE, model=dataclasses.replace(RECIPE.model, **model), **changes)
    with pytest.raises(ValueError, match=sentence):
        build_model(recipe, LABELS)
