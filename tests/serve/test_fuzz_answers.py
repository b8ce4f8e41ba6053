"""Random requests: each response has the SavedModel's outputs or an error message."""

import json
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf
from fuzz.requests import request
from support import needs_tensorflow

pytestmark = [needs_tensorflow, pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")]


def send(port, raw):
    """Return status, headers and body of the response; None if the server closes the connection without a response."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                received += part
        except (ConnectionResetError, BrokenPipeError):  # it answers before it has read all, and closes
            pass
    while received.startswith(b"HTTP/1.1 100"):
        received = received.partition(b"\r\n\r\n")[2]
    if not received:
        return None
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode("latin-1").lower(), body


def memory(process):
    """Return the peak memory of a process in bytes."""
    with open(f"/proc/{process.pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def rows_are_right(predictions, signature, **inputs):
    """Return whether the server's response has the SavedModel's outputs."""
    expected = {name: value.numpy() for name, value in signature(**inputs).items()}
    for name, values in expected.items():
        found = [row[name] for row in predictions]
        if values.dtype == object:
            assert found == np.vectorize(bytes.decode, otypes=[object])(values).tolist()
        else:
            np.testing.assert_allclose(found, values, atol=1e-5)


@pytest.mark.broad
@pytest.mark.parametrize("count", [80, pytest.param(2500, marks=pytest.mark.large)])
def test_requests_are_answered_rightly_or_refused_in_one_sentence(count, server, own):
    before, statuses = memory(server.process), []
    for seed in range(count):
        asked = request(seed)
        answer = send(server.port, asked["raw"])
        assert server.process.poll() is None, f"seed {seed}: the server ended"
        if answer is None:
            assert asked.get("odd"), f"seed {seed}: no answer"
            continue
        status, head, body = answer
        statuses.append(status)
        assert status < 500, f"seed {seed}: {status} {body[:300]}"
        if status >= 400:
            assert b"Traceback" not in body and len(body) < 1000, f"seed {seed}: {body[:300]}"
            if "application/json" in head and body:
                assert "\n" not in json.loads(body)["error"], f"seed {seed}: {body[:300]}"
        elif "file" in asked:
            (row,) = json.loads(body)["predictions"]
            if row["error"]:
                assert "\n" not in row["error"] and not any(row["labels"]), f"seed {seed}"
            else:
                rows_are_right([row], own()["classify_bytes"], image_bytes=tf.constant([asked["file"]]))
        elif "body" in asked:
            rows = json.loads(asked["body"])["instances"]
            rows_are_right(
                json.loads(body)["predictions"], own()["serving_default"], images=tf.constant(rows, "float32")
            )
    assert server.ask("GET", "/v2/health/live") == (200, {"live": True})
    assert statuses.count(200) > count / 8 and statuses.count(400) > count / 8
    assert memory(server.process) - before < 2e9
