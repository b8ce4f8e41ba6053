"""Requests for the fuzz: right ones, wrong tensors, damaged JSON, odd images and what is hardly HTTP."""

import base64
import json
import struct

import numpy as np
from fuzz.images import image_file
from mutations import mutated

PATHS = (
    *("/v1/models/photos:predict", "/v1/models/photos:classify", "/v1/models/photos/versions/1:predict"),
    *(
        "/v1/models/nobody:predict",
        "/v1/models/photos/versions/99999999999999999999:predict",
        "/v2/models/photos/infer",
    ),
    *("/v1/models/photos/metadata", "/v2", "/v2/models/photos", "/metrics", "/", "/%00", "/../../etc/passwd", "/\xff"),
)
HEADERS = (
    *("X-A: a", "X-A: " + "a" * 9000, "Transfer-Encoding: chunked", "Host: evil.example", "Expect: 100-continue"),
    *("Origin: http://evil.example", "Content-Encoding: gzip"),
)
METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PRI", "G\0T")
VALUES = (
    *(
        None,
        True,
        -1,
        10**400,
        1e308,
        float("nan"),
        "",
        "b64",
        [],
        {},
        [[]],
        {"b64": "no base64"},
        {"b64": None},
        "\ud800",
    ),
    *([1, [2]], [[[[1.0]]]], {"images": 1}, {"shape": [2**62]}, [0] * 5000, {"": {"": {}}}),
)


def request(seed: int) -> dict:
    """A request; the same for the same seed.

    Returns:
        `raw`, what is sent; for those that may have an answer `body`, what was asked in JSON, and `file`, the one image
        file in it.
    """
    rng = np.random.default_rng(seed)
    return KINDS[int(rng.integers(len(KINDS)))](rng, seed)


def http(body: bytes, path="/v1/models/photos:predict", method="POST", headers=(), length=None) -> bytes:
    """One request that asks for the connection to be closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", "Content-Type: application/json"]
    lines += [*headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _floats(rng) -> list:
    return rng.uniform(-1, 1, (int(rng.integers(1, 4)), 16, 16, 3)).round(3).tolist()


def _right(rng, seed):
    body = json.dumps({"instances": _floats(rng)}).encode()
    return {"raw": http(body), "body": body}


def _image(rng, seed):
    data, _ = image_file(seed)
    row = {"b64": base64.b64encode(data).decode()}
    body = json.dumps({"signature_name": "classify_bytes", "instances": [row]}).encode()
    return {"raw": http(body), "file": data}


def _damaged_body(rng, seed):
    body = mutated(json.dumps({"instances": _floats(rng)}).encode(), rng)
    return {"raw": http(body), "body": body}


def _wrong_values(rng, seed):
    """One of the values is another, or one key too many."""
    said = {"signature_name": str(rng.choice(["serving_default", "classify_bytes", "features", "nothing"]))}
    said[str(rng.choice(["instances", "inputs", "examples"]))] = VALUES[int(rng.integers(len(VALUES)))]
    said[str(rng.choice(["signature_name", "more", "instances"]))] = VALUES[int(rng.integers(len(VALUES)))]
    return {"raw": http(json.dumps(said).encode(), PATHS[int(rng.integers(3))])}


def _nested(rng, seed):
    depth = int(rng.choice([50, 2000, 100_000]))
    return {"raw": http(b'{"instances": ' + b"[" * depth + b"]" * (depth if rng.random() < 0.5 else 0) + b"}")}


def _tensor(rng, seed):
    """The Open Inference Protocol with another shape, type or size than there is."""
    values = np.asarray(_floats(rng), "<f4")
    tensor = {"name": "images", "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}
    wrong = {"shape": [[2**40, 2**40], [-1], "x", [], [1, 16, 16, 3.5]], "datatype": ["BYTES", "INT8", None, "FP99"]}
    wrong |= {
        "data": [None, "x", [[]], [1]],
        "name": ["", None, "image_bytes"],
        "parameters": [None, {"binary_data_size": 9**9}],
    }
    key = str(rng.choice(list(wrong)))
    tensor[key] = wrong[key][int(rng.integers(len(wrong[key])))]
    body, headers = json.dumps({"inputs": [tensor]}).encode(), []
    if rng.random() < 0.4:
        headers = [f"Inference-Header-Content-Length: {int(rng.choice([0, 7, len(body), 10**12]))}"]
        body += struct.pack("<I", int(rng.integers(2**32))) + rng.bytes(int(rng.integers(100)))
    return {"raw": http(body, "/v2/models/photos/infer", headers=headers)}


def _odd_http(rng, seed):
    body, header = b"{}", HEADERS[int(rng.integers(len(HEADERS)))]
    raw = http(
        body,
        PATHS[int(rng.integers(len(PATHS)))],
        METHODS[int(rng.integers(len(METHODS)))],
        [header],
        int(rng.choice([len(body), 0, 1, 10**7, 10**20, -1])),
    )
    return {"raw": raw, "odd": True}


def _damaged_http(rng, seed):
    return {"raw": mutated(http(b'{"instances": []}'), rng), "odd": True}


def _noise(rng, seed):
    return {"raw": rng.bytes(int(rng.integers(1, 400))), "odd": True}


KINDS = (
    *(_right, _image, _image, _damaged_body, _wrong_values, _wrong_values),
    *(_nested, _tensor, _odd_http, _damaged_http, _noise),
)
