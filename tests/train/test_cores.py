"""Training with a thread a core: the parts of a batch side by side, and TensorFlow's threads."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, needs_tensorflow
from train.test_step import IMAGES, LABELS, RANDOM, RECIPE, TARGETS, after, with_optimizer

from keras_vit.train import engine, step, strategy
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.strategy import Devices, choose

pytestmark = needs_tensorflow


@pytest.fixture
def threads(monkeypatch):
    """TensorFlow's threads (of an operation, between operations) as they were set, on a CPU of six cores."""
    found = SimpleNamespace(counts=[0, 0], begun=False)

    def change(place, count):
        if found.begun and count != found.counts[place]:
            raise RuntimeError("cannot be modified after initialization.")
        found.counts[place] = count

    for place, name in enumerate(("intra", "inter")):
        setter = functools.partial(change, place)
        monkeypatch.setattr(tf.config.threading, f"set_{name}_op_parallelism_threads", setter)
    monkeypatch.setattr(strategy, "usable_cores", lambda: 6)
    return found


@pytest.mark.parametrize(
    ("batch", "accumulate", "parts", "of_an_operation"), [(12, 1, 6, 1), (128, 1, 4, 1), (12, 4, 3, 2), (7, 1, 1, 6)]
)
def test_a_batch_is_cut_into_as_many_equal_parts_as_there_are_cores_for(
    threads, batch, accumulate, parts, of_an_operation
):
    devices = choose("cores", batch, accumulate)
    assert (devices.cores, devices.replicas, threads.counts) == (parts, 1, [of_an_operation, parts])


def test_threads_that_are_set_already_are_taken_where_they_are_right_and_refused_where_not(threads):
    choose("cores", 12)
    threads.begun = True
    assert choose("cores", 24).cores == 6
    with pytest.raises(ValueError, match="strategy 'cores' expected a process in which TensorFlow has not computed"):
        choose("cores", 128)


def test_where_a_gpu_trains_or_a_batch_has_no_equal_parts_threads_stay_as_they_are(threads, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    with pytest.raises(ValueError, match="expected a machine whose CPU trains, found a GPU"):
        choose("cores", 12)
    with pytest.raises(ValueError, match="batch_size expected a multiple of the 1 replicas times 4 parts, received 7"):
        choose("cores", 7, 4)
    assert threads.counts == [0, 0]


@pytest.mark.broad
@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({"clip_norm": 0.1, "sam": 0.05}, RECIPE.model),
        pytest.param({"accumulate": 2, "clip_norm": 0.1}, RANDOM, marks=pytest.mark.broad),
        pytest.param({"sam": 0.05}, RANDOM, marks=pytest.mark.large),
    ],
)
def test_parts_side_by_side_make_the_plain_update(changes, model):
    """Dropout and stochastic depth included, also where each core goes through its examples in parts."""
    recipe = replace(RECIPE, model=model)
    plain = with_optimizer(recipe, **changes | {"accumulate": 1})
    (loss, expected), (found, weights) = after(plain), after(with_optimizer(recipe, **changes), cores=4)
    assert found == pytest.approx(loss, abs=1e-6) and max_difference(weights, expected) < 1e-6


@pytest.mark.parametrize(
    ("recipe", "cores"), first_quick([(RECIPE, 4), (RECIPE, 1), (with_optimizer(accumulate=2), 2)])
)
def test_an_update_is_traced_once_and_as_it_is(recipe, cores, monkeypatch):
    """Not for each part, nor turned into other Python first: either takes seconds of a large model's first step."""
    plain, converted = step.Step._of_part, []

    def of_part(*given):
        converted.append(tf.__internal__.autograph.control_status_ctx().status.name)
        return plain(*given)

    monkeypatch.setattr(step.Step, "_of_part", of_part)
    state = first_state(recipe, LABELS, 1, tf.distribute.get_strategy())
    run = step.compiled_steps(recipe, state, tf.distribute.get_strategy(), spans_of(recipe, 1)[0], cores)
    run(iter(tf.data.Dataset.from_tensors((IMAGES, TARGETS))), tf.constant(1))
    assert converted == ["DISABLED"]


def test_a_run_hands_its_cores_to_its_steps(tmp_path, monkeypatch):
    class Handed(Exception):
        pass

    def steps(*given):
        raise Handed(given[4])

    monkeypatch.setattr(engine, "choose", lambda *_: Devices(tf.distribute.get_strategy(), cores=2))
    monkeypatch.setattr(engine, "compiled_steps", steps)
    with pytest.raises(Handed, match="^2$"):
        engine.train(replace(RECIPE, steps=1), tmp_path)


def test_an_evaluation_is_cut_and_put_together_again():
    seen = []

    def sums(images, labels):
        seen.append(tuple(images.shape))
        return tf.reduce_sum(images * labels[:, None])

    def rows(images, labels):
        return images + 1, labels

    batch = tf.reshape(tf.range(16.0), (8, 2)), tf.range(8.0)
    devices = Devices(tf.distribute.get_strategy(), cores=4)
    assert float(devices.summed(sums)(*batch)) == float(sums(*batch))
    assert seen == [(2, 2)] * 4 + [(8, 2)]
    for found, expected in zip(devices.gathered(rows)(*batch), rows(*batch), strict=True):
        np.testing.assert_array_equal(found, expected)
