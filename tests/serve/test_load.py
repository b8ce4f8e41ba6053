"""Concurrent clients, and the metrics for Prometheus."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer

import numpy as np
import pytest
import tensorflow as tf
from serving import b64, damaged, encoded, picture
from support import needs_tensorflow

pytestmark = needs_tensorflow
CLIENTS = 32
EACH = 12  # requests of a client


@pytest.fixture(scope="module")
def cases(own):
    """Return (model or version, request, name of an output, its value by the SavedModel) for floats and files."""
    rng = np.random.default_rng(1)
    floats = rng.uniform(-1, 1, (8, 16, 16, 3)).astype("float32")
    files = [encoded(picture(seed), "JPEG") for seed in range(8)]
    bodies = [{"signature_name": "classify_bytes", "instances": [b64(data)]} for data in files]
    cases = []
    for model, version, path in (("photos", 1, "photos/versions/1"), ("photos", 2, "photos"), ("grey", 1, "grey")):
        signatures = own(model, version)
        scores = signatures["classify_bytes"](image_bytes=tf.constant(files))["probabilities"].numpy()
        cases += [(path, body, "probabilities", y) for body, y in zip(bodies, scores, strict=True)]
        given = floats[:, :8, :, :1] if model == "grey" else floats
        logits = signatures["serving_default"](images=tf.constant(given))["logits"].numpy()
        cases += [(path, {"instances": [x.tolist()]}, "logits", y) for x, y in zip(given, logits, strict=True)]
    return cases


def ask_on(server, cases, number: int, goes_on) -> int:
    """Send requests, one in seven with a damaged file. Compare the responses and return their number."""
    corrupt = {"signature_name": "classify_bytes", "instances": [b64(damaged())]}
    answered = 0
    while goes_on(answered):
        path, body, output, expected = cases[(5 * number + answered) % len(cases)]
        status, answer = server.predict(path, body)
        assert status == 200, answer
        assert np.allclose(answer["predictions"][0][output], expected, atol=1e-5), path
        answered += 1
        if answered % 7 == number % 7:  # in the batches of the others
            status, answer = server.predict("photos", corrupt)
            assert status == 200 and "damaged JPEG" in answer["predictions"][0]["error"]
    return answered


@pytest.mark.broad
def test_many_clients_at_once_get_their_own_answers(server, cases):
    with ThreadPoolExecutor(CLIENTS) as pool:
        answered = pool.map(lambda number: ask_on(server, cases, number, lambda done: done < EACH), range(CLIENTS))
        assert list(answered) == [EACH] * CLIENTS


@pytest.mark.large
def test_many_clients_for_twenty_seconds_get_their_own_answers(server, cases):
    enough = Event()
    timer = Timer(20, enough.set)
    timer.start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answered = pool.map(lambda number: ask_on(server, cases, number, lambda _: not enough.is_set()), range(CLIENTS))
        assert min(answered) > 0


def test_prometheus_reads_what_was_answered(server, images):
    def count():
        status, text = server.ask("GET", "/metrics")
        assert status == 200
        row = 'keras_vit_images_total{model="photos",signature="serving_default",version="2"} '
        return sum(float(line.removeprefix(row)) for line in text.decode().splitlines() if line.startswith(row))

    before = count()
    server.predict("photos", {"inputs": images.tolist()})
    assert count() == before + len(images)
    server.ask("GET", "/v1/models/invented")
    text = server.ask("GET", "/metrics")[1].decode()
    assert "invented" not in text
    assert 'keras_vit_newest_version{model="photos"} 2.0' in text
