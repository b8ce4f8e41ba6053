"""Concurrent calls are computed in one batch, and each gets its own outputs or error."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import tensorflow as tf
from serving import started
from support import needs_tensorflow

from keras_vit.serve.errors import Refusal
from keras_vit.serve.signature import Batching, signatures_of

pytestmark = needs_tensorflow
FULL = 4  # images that fill a batch; the wait for more only bounds a failure
TASKS = Path("/proc/self/task")


class Witness(tf.Module):
    """Return twice each value, and the batch size that the graph computed. A negative value raises an error."""

    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])
    def __call__(self, x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, "x expected no negative value")]):
            return {"doubled": 2 * x, "rows": tf.fill(tf.shape(x)[:1], tf.shape(x)[0])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("witness") / "witness"
    module = Witness()
    tf.saved_model.save(module, str(folder / "1"), signatures={"serving_default": module.__call__})
    return folder


def signature(folder, **batching):
    return signatures_of(tf.saved_model.load(str(folder / "1")), Batching(**batching))["serving_default"]


def at_once(call, values):
    """Start all calls at the same time, and return what each one returns or raises."""
    barrier = Barrier(len(values))

    def one(value):
        barrier.wait()
        try:
            return call(value)
        except Refusal as refusal:
            return refusal

    with ThreadPoolExecutor(len(values)) as pool:
        return list(pool.map(one, values))


def values(*firsts, rows=1):
    return [np.full((rows, 2), first, "float32") for first in firsts]


@pytest.mark.broad
def test_requests_of_several_clients_meet_in_one_batch(folder):
    with started([folder], "--max-batch-size", FULL, "--batch-timeout", 4_000) as server:
        given = values(*range(FULL))
        answers = at_once(lambda x: server.predict("witness", {"inputs": x.tolist()}), given)
    for x, (status, answer) in zip(given, answers, strict=True):
        assert status == 200
        assert answer["outputs"] == {"doubled": (2 * x).tolist(), "rows": [FULL]}


def test_calls_of_several_rows_meet_too(folder):
    call = signature(folder, max_batch_size=FULL, batch_timeout_ms=60_000)
    given = values(1, 2, rows=FULL // 2)
    for x, answer in zip(given, at_once(lambda x: call({"x": x}), given), strict=True):
        assert np.array_equal(answer["doubled"], 2 * x)
        assert set(answer["rows"]) == {FULL}


def test_a_call_of_more_rows_than_a_batch_is_cut(folder):
    call = signature(folder, max_batch_size=FULL, batch_timeout_ms=1)
    (x,) = values(3, rows=2 * FULL + 1)
    answer = call({"x": x})
    assert np.array_equal(answer["doubled"], 2 * x)
    assert sorted(answer["rows"]) == [1, *[FULL] * (2 * FULL)]


def test_a_fault_stays_with_its_own_call(folder):
    call = signature(folder, max_batch_size=FULL, batch_timeout_ms=60_000)
    *fine, refused = at_once(lambda x: call({"x": x}), values(0, 1, 2, -1))
    assert [answer["doubled"][0, 0] for answer in fine] == [0, 2, 4]
    assert refused.status == 400
    assert "x expected no negative value" in refused.sentence


def test_batches_of_one_are_computed_alone(folder):
    call = signature(folder, max_batch_size=1)
    assert call.batched is None
    assert [answer["rows"].tolist() for answer in at_once(lambda x: call({"x": x}), values(1, 2, 3))] == [[1]] * 3


def batch_threads() -> set[str]:
    """Return the ids of the threads that compute batches."""
    found = set()
    for task in TASKS.iterdir():
        with contextlib.suppress(OSError):  # it has ended since
            if (task / "comm").read_text().startswith("batch_threads"):
                found.add(task.name)
    return found


@pytest.mark.broad
@pytest.mark.skipif(not TASKS.is_dir(), reason="this system does not list a process's threads there")
def test_a_version_loaded_later_starts_no_threads_and_keeps_its_own_queue(folder):
    """TensorFlow never ends the threads that compute batches, so a new version must not start new ones."""
    options = {"max_batch_size": FULL, "batch_timeout_ms": 61_000, "num_batch_threads": 3}
    before = batch_threads()  # an earlier test's may be about to end
    for _ in range(3):
        call = signature(folder, **options)
        answers = at_once(lambda x, call=call: call({"x": x}), values(*range(FULL)))
        assert [answer["rows"].tolist() for answer in answers] == [[FULL]] * FULL
        assert len(batch_threads() - before) == 3


class Slow(tf.Module):
    """Return the input after slow matmuls."""

    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])
    def __call__(self, x):
        matrix = mean = tf.fill((700, 700), 1.0 / 700)
        for _ in tf.range(60):
            matrix = tf.matmul(matrix, mean)  # not its square, which would raise its rounding to the power of 2**60
        return {"doubled": x * (1 + 700 * matrix[0, 0])}


@pytest.mark.broad
def test_past_the_batches_that_may_wait_a_call_is_refused_and_the_others_are_right(tmp_path):
    module = Slow()
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"serving_default": module.__call__})
    call = signature(tmp_path, max_batch_size=2, num_batch_threads=1, max_enqueued_batches=1, batch_timeout_ms=0)
    given = values(*range(16), rows=2)
    answers = at_once(lambda x: call({"x": x}), given)
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert refused and len(refused) < len(answers)
    assert {refusal.status for refusal in refused} == {503}
    assert all(refusal.sentence.startswith("the server is at its limit, try again later: ") for refusal in refused)
    for x, answer in zip(given, answers, strict=True):
        assert isinstance(answer, Refusal) or np.allclose(answer["doubled"], 2 * x, rtol=1e-3)
