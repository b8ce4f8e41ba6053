"""Requests damaged at random, by the thousand: each gets an answer or one sentence, and whole ones between them the
right answer."""

import json
import re
import socket
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from mutations import mutated
from serving import agrees, b64, encoded, picture
from support import needs_tensorflow

pytestmark = needs_tensorflow
EVERY = 10  # of so many requests one is whole
ODD = (None, True, -1, 0, 1.5, 1e400, "", "x", [], {}, [[]], [None], {"b64": "?"}, 10**400, "\ud800", [[[[0.5] * 3]]])


def bodies(images) -> list[dict]:
    """Whole requests of every kind: (path, body)."""
    files = [encoded(picture(seed), kind) for seed, kind in enumerate(["PNG", "JPEG", "WEBP", "GIF"])]
    v1, v2 = "/v1/models/photos:", "/v2/models/photos/infer"
    tensor = {"name": "images", "shape": list(images.shape), "datatype": "FP32", "data": images.ravel().tolist()}
    text = {"name": "image_bytes", "shape": [1], "datatype": "BYTES", "data": [b64(files[0])["b64"]]}
    return [
        (v1 + "predict", {"instances": images.tolist()}),
        (v1 + "predict", {"inputs": {"images": images.tolist()}}),
        (v1 + "predict", {"signature_name": "classify_bytes", "instances": [b64(data) for data in files]}),
        (v1 + "classify", {"examples": [{"image_bytes": b64(files[1])}]}),
        (v2, {"inputs": [tensor]}),
        (v2, {"inputs": [text], "parameters": {"signature_name": "classify_bytes"}}),
    ]


def with_odd_value(value, rng):
    """A JSON value, one part of which is another value, missing, twice as often or of another name."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = sorted(value)[int(rng.integers(len(value)))]
        rest = {k: v for k, v in value.items() if k != key}
        kind = rng.random()
        if kind < 0.1:
            return rest
        if kind < 0.2:
            return {**rest, key[::-1]: value[key]}
        return {**value, key: with_odd_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = int(rng.integers(len(value)))
        return rng.choice([0, 1]) * value + [*value[:i], with_odd_value(value[i], rng), *value[i + 1 :]]
    return ODD[int(rng.integers(len(ODD)))]


def with_damaged_file(path, body, rng):
    """A request whose first image file is damaged."""
    data = mutated(encoded(picture(int(rng.integers(9))), ["JPEG", "PNG", "GIF", "WEBP"][int(rng.integers(4))]), rng)
    return "/v1/models/photos:predict", {"signature_name": "classify_bytes", "instances": [b64(data)]}


def raw(server, data: bytes) -> bytes:
    """What the server answers to bytes; nothing where it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            parts = []
            while part := client.recv(65536):
                parts.append(part)
        except (ConnectionResetError, BrokenPipeError):
            return b""
    return b"".join(parts)


def check_refusal(status: int, answer) -> None:
    """A refusal is one sentence and no fault of the server's."""
    assert 400 <= status < 500 or status == 503, (status, answer)
    text = answer["error"] if isinstance(answer, dict) else answer.decode()
    assert text and "\n" not in text and "Traceback" not in text and len(text) < 1000, text


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell a process's memory")
@pytest.mark.parametrize("count", [100, pytest.param(2500, marks=pytest.mark.large)])
def test_requests(count, server, own, images):
    rng, whole = np.random.default_rng(count), bodies(images)
    expected = own()["serving_default"](images=tf.constant(images))
    status = Path(f"/proc/{server.process.pid}/status")
    memory = lambda: 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])  # noqa: E731
    before, answered = memory(), 0
    for i in range(count):
        path, body = whole[int(rng.integers(len(whole)))]
        if i % EVERY == 0:
            code, answer = server.predict("photos", {"inputs": images.tolist()})
            assert code == 200 and agrees(answer["outputs"], expected)
        elif i % EVERY in (1, 2):  # the bytes of a whole request, head and body
            text = json.dumps(body)
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            answer = raw(server, mutated(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode(), rng))
            found = re.match(rb"HTTP/1.1 (\d+) ", answer)
            assert (found or not answer) and (not found or int(found[1]) < 500 or int(found[1]) in (501, 503, 505))
            assert b"Traceback" not in answer
        else:
            if i % EVERY in (3, 4):
                path, body = with_damaged_file(path, body, rng)
            elif i % EVERY < 8:
                body = with_odd_value(body, rng)
            data = json.dumps(body).encode()
            data = mutated(data, rng) if i % EVERY >= 8 else data
            code, answer = server.ask("POST", path, data, {"Content-Type": "application/json"})
            if code == 200:
                answered += 1
            else:
                check_refusal(code, answer)
    assert answered > count / 20
    assert memory() - before < 2e9
