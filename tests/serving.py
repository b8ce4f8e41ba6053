"""A server in a process of its own, and what it serves."""

import base64
import contextlib
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import keras
import numpy as np
from PIL import Image
from support import ROOT, randomise

import keras_vit

START_SECONDS, STOP_SECONDS = 120, 60
MAX_BYTES, MAX_PIXELS = 1_000_000, 1_000_000


@dataclass
class Server:
    """A started server process."""

    process: subprocess.Popen
    port: int
    said: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body=None, headers=None) -> tuple[int, object]:
        """One request on a connection of its own: (status, JSON, or text where it is none)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            data = response.read()
            if response.headers.get_content_type() == "application/json":
                return response.status, json.loads(data)
            return response.status, data

    def predict(self, model: str, body, verb="predict") -> tuple[int, dict]:
        return self.ask("POST", f"/v1/models/{model}:{verb}", body)

    def wait_for(self, sentence: str) -> None:
        """Until the server has said so; the deadline only bounds a failure."""
        for _ in range(600):
            if any(sentence in line for line in self.said):
                return
            assert self.process.poll() is None, "the server ended"
            threading.Event().wait(0.1)
        raise AssertionError(f"the server never said {sentence!r}, but {self.said}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def started(folders, *options):
    """A server of exports on a free port, stopped in the end."""
    command = [sys.executable, "-m", "keras_vit.cli", "serve", *map(str, folders), "--port", "0", *map(str, options)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    kill = threading.Timer(START_SECONDS, process.kill)
    kill.start()
    line = process.stdout.readline()
    kill.cancel()
    found = re.search(r"serving .* at http://127\.0\.0\.1:(\d+)", line)
    assert found, f"the server did not start: {line!r}"
    server = Server(process, int(found[1]), [line])
    reader = threading.Thread(target=lambda: server.said.extend(process.stdout), daemon=True)
    reader.start()
    try:
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join()
        process.stdout.close()


def tiny(seed=0, **options) -> keras.Model:
    row = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=8, image_size=16)
    return randomise(keras_vit.build(row, **{"classes": 7, "labels": tuple("abcdefg"), **options}), seed)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def picture(seed=0, size=(37, 29)) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), "uint8")
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def damaged() -> bytes:
    """A JPEG file whose header is whole and whose pixels are cut short: only decoding it tells."""
    return encoded(picture(), "JPEG")[:-200]


def b64(data: bytes) -> dict:
    return {"b64": base64.b64encode(data).decode()}


def close_to(received, expected):
    expected = np.asarray(expected)
    if expected.dtype == object:
        return np.array_equal(np.asarray(received, object), np.vectorize(bytes.decode, otypes=[object])(expected))
    return np.allclose(received, expected, atol=1e-5)


def agrees(columns: dict, expected: dict) -> bool:
    return columns.keys() == expected.keys() and all(close_to(columns[k], expected[k].numpy()) for k in expected)


def column(predictions: list[dict]) -> dict:
    return {name: [row[name] for row in predictions] for name in predictions[0]}


def in_flight(server) -> int:
    text = server.ask("GET", "/metrics")[1].decode()
    return int(float(text.partition("\nkeras_vit_requests_in_flight ")[2].split()[0]))


def until(condition):
    """Until it holds; the deadline only bounds a failure."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to hold")
