"""Answers over real HTTP, each compared with the SavedModel's own; what is refused, and in which words."""

import base64
import json
import socket
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from serving import MAX_BYTES, MAX_PIXELS, b64, encoded, picture, started
from support import needs_tensorflow

from keras_vit.preprocess import load_image, preprocess_input

pytestmark = needs_tensorflow
CLIENTS = 32


@pytest.fixture(scope="module")
def server(exports):
    options = ("--max-request-bytes", MAX_BYTES, "--max-pixels", MAX_PIXELS, "--body-timeout", 2, "--versions", 2)
    with started([exports / "photos", exports / "grey"], *options) as server:
        yield server


@pytest.fixture(scope="module")
def own(exports):
    """(model, version) -> the SavedModel's own signatures."""
    loaded = {}

    def signatures(model="photos", version=2):
        if (model, version) not in loaded:
            loaded[model, version] = tf.saved_model.load(str(exports / model / str(version)))
        return loaded[model, version].signatures

    return signatures


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")


@pytest.fixture(autouse=True)
def alive(server):
    """After every test the server still answers."""
    yield
    assert server.process.poll() is None
    assert server.ask("GET", "/v2/health/live") == (200, {"live": True})


def close_to(received, expected):
    expected = np.asarray(expected)
    if expected.dtype == object:
        return np.array_equal(np.asarray(received, object), np.vectorize(bytes.decode, otypes=[object])(expected))
    return np.allclose(received, expected, atol=1e-5)


def agrees(columns: dict, expected: dict) -> bool:
    return columns.keys() == expected.keys() and all(close_to(columns[k], expected[k].numpy()) for k in expected)


def column(predictions: list[dict]) -> dict:
    return {name: [row[name] for row in predictions] for name in predictions[0]}


# TensorFlow Serving's REST


@pytest.mark.parametrize("count", [1, 3])
def test_floats_in_rows_and_columns(server, own, images, count):
    given, expected = images[:count], own()["serving_default"](images=tf.constant(images[:count]))
    values = given.tolist()
    for rows in (values, [{"images": value} for value in values]):
        status, answer = server.predict("photos", {"instances": rows})
        assert status == 200
        assert agrees(column(answer["predictions"]), expected)
    for columns in (values, {"images": values}):
        status, answer = server.predict("photos", {"signature_name": "serving_default", "inputs": columns})
        assert status == 200
        assert agrees(answer["outputs"], expected)


@pytest.mark.parametrize("count", [1, 3])
def test_image_files_in_rows_and_columns(server, own, count):
    files = [encoded(picture(seed), kind) for seed, kind in enumerate(["PNG", "JPEG", "WEBP"])][:count]
    expected = own()["classify_bytes"](image_bytes=tf.constant(files))
    for rows in ([b64(data) for data in files], [{"image_bytes": b64(data)} for data in files]):
        status, answer = server.predict("photos", {"signature_name": "classify_bytes", "instances": rows})
        assert status == 200
        assert agrees(column(answer["predictions"]), expected)
    body = {"signature_name": "classify_bytes", "inputs": {"image_bytes": [b64(data) for data in files]}}
    status, answer = server.predict("photos", body)
    assert status == 200
    assert agrees(answer["outputs"], expected)


def test_the_best_classes_are_labelled_best_first(server, own):
    files = [encoded(picture(seed), "PNG") for seed in range(2)]
    status, answer = server.predict("photos", {"examples": [{"image_bytes": b64(data)} for data in files]}, "classify")
    probabilities = own()["classify_bytes"](image_bytes=tf.constant(files))["probabilities"].numpy()
    assert status == 200
    for pairs, row in zip(answer["results"], probabilities, strict=True):
        best = np.argsort(-row)[:5]
        assert [label for label, _ in pairs] == ["abcdefg"[i] for i in best]
        assert np.allclose([score for _, score in pairs], row[best], atol=1e-6)
    status, answer = server.predict("grey", {"context": {"image_bytes": [b64(files[0])]}, "examples": [{}]}, "classify")
    assert status == 200
    assert len(answer["results"][0]) == 3


def test_two_models_and_two_versions_answer_for_themselves(server, own, images):
    for version, path in ((2, "photos"), (1, "photos/versions/1"), (2, "photos/versions/2")):
        expected = own("photos", version)["serving_default"](images=tf.constant(images))
        assert agrees(server.predict(path, {"inputs": images.tolist()})[1]["outputs"], expected)
    grey = images[:, :8, :, :1]
    expected = own("grey", 1)["serving_default"](images=tf.constant(grey))
    assert agrees(server.predict("grey", {"inputs": grey.tolist()})[1]["outputs"], expected)


def test_status_and_metadata_say_what_is_served(server, own):
    def available(*numbers):
        ok = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": n, "state": "AVAILABLE", "status": ok} for n in numbers]}

    assert server.ask("GET", "/v1/models/photos") == (200, available("2", "1"))
    assert server.ask("GET", "/v1/models/photos/versions/1") == (200, available("1"))
    status, answer = server.ask("GET", "/v1/models/photos/versions/1/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "photos", "signature_name": "", "version": "1"}
    found = answer["metadata"]["signature_def"]["signature_def"]
    assert found.keys() == dict(own()).keys()
    tensor = found["serving_default"]["inputs"]["images"]
    assert tensor["dtype"] == "DT_FLOAT"
    assert [side["size"] for side in tensor["tensor_shape"]["dim"]] == ["-1", "16", "16", "3"]
    assert found["classify_bytes"]["method_name"] == "tensorflow/serving/predict"


def test_nan_goes_through_in_tensorflow_servings_json_and_is_refused_in_the_other(server, images):
    given = images[:1].copy()
    given[0, 0, 0, 0] = np.nan
    status, answer = server.predict("photos", {"instances": given.tolist()})
    assert status == 200
    assert np.isnan(answer["predictions"][0]["logits"]).all()
    tensor = {"name": "images", "datatype": "FP32", "shape": list(given.shape), "data": given.ravel().tolist()}
    status, answer = server.ask("POST", "/v2/models/photos/infer", {"inputs": [tensor]})
    assert (status, answer) == (400, {"error": "JSON Parse error: NaN is no number of JSON"})


# The Open Inference Protocol


def tensor_of(name, array, datatype="FP32", **more):
    return {"name": name, "datatype": datatype, "shape": list(array.shape), **more}


def test_floats_by_the_open_inference_protocol(server, own, images):
    expected = own("photos", 1)["serving_default"](images=tf.constant(images))
    tensor = tensor_of("images", images, data=images.tolist())
    request = {"id": "7", "inputs": [tensor], "outputs": [{"name": "logits"}]}
    status, answer = server.ask("POST", "/v2/models/photos/versions/1/infer", request)
    assert status == 200
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("photos", "1", "7")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("logits", "FP32", [3, 7])
    assert np.allclose(np.reshape(output["data"], (3, 7)), expected["logits"], atol=1e-5)


def test_image_files_by_the_open_inference_protocol(server, own):
    files = [encoded(picture(seed), "JPEG") for seed in range(2)]
    expected = own()["classify_bytes"](image_bytes=tf.constant(files))
    data = [base64.b64encode(file).decode() for file in files]
    tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [2], "data": data}
    status, answer = server.ask(
        "POST", "/v2/models/photos/infer", {"inputs": [{**tensor, "parameters": {"content_type": "base64"}}]}
    )
    assert status == 200
    found = {output["name"]: np.reshape(output["data"], output["shape"]) for output in answer["outputs"]}
    assert agrees(found, expected)


def test_binary_tensors_both_ways(server, own):
    files = [encoded(picture(seed), "PNG") for seed in range(3)]
    expected = own()["classify_bytes"](image_bytes=tf.constant(files))["probabilities"].numpy()
    binary = b"".join(struct.pack("<I", len(file)) + file for file in files)
    tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [3], "parameters": {"binary_data_size": len(binary)}}
    asked = {"inputs": [tensor], "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}
    text = json.dumps(asked).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    status, answer = server.ask("POST", "/v2/models/photos/infer", text + binary, headers)
    assert status == 200
    assert np.allclose(np.frombuffer(answer[-3 * 7 * 4 :], "<f4").reshape(3, 7), expected, atol=1e-6)


def test_kserves_own_client_understands_the_server(server, own, images):
    kserve = pytest.importorskip("kserve", reason="kserve (extra `parity`) is not installed")
    import asyncio

    async def ask():
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        base = f"http://127.0.0.1:{server.port}"
        tensor = kserve.InferInput("images", list(images.shape), "FP32")
        tensor.set_data_from_numpy(images, binary_data=True)
        answer = await client.infer(base, kserve.InferRequest("photos", [tensor]), model_name="photos")
        ready = await client.is_server_ready(base), await client.is_model_ready(base, "photos")
        await client.close()
        return ready, {output.name: output.as_numpy() for output in answer.outputs}

    ready, outputs = asyncio.run(ask())
    assert ready == (True, True)
    assert agrees(outputs, own()["serving_default"](images=tf.constant(images)))


def test_facts_of_server_and_model(server):
    assert server.ask("GET", "/v2")[1]["extensions"] == ["binary_tensor_data"]
    assert server.ask("GET", "/v2/health/ready") == (200, {"ready": True})
    assert server.ask("GET", "/v2/models") == (200, {"models": ["photos", "grey"]})
    assert server.ask("GET", "/v2/models/grey/versions/1/ready") == (200, {"name": "grey", "ready": True})
    facts = server.ask("GET", "/v2/models/photos")[1]
    assert facts["versions"] == ["1", "2"]
    assert facts["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [-1, 16, 16, 3]}]
    assert facts["parameters"]["signature_names"].startswith("serving_default,")
    assert (facts["parameters"]["input_low"], facts["parameters"]["input_high"]) == (-1, 1)


# Image files of every sort


def rotated() -> bytes:
    """A photograph whose EXIF entry asks a viewer to turn it by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(picture(), "JPEG", exif=exif)


SORTS = {
    "one pixel": lambda: encoded(picture().resize((1, 1)), "PNG"),
    "CMYK JPEG": lambda: encoded(picture().convert("CMYK"), "JPEG"),
    "grey": lambda: encoded(picture().convert("L"), "JPEG"),
    "alpha": lambda: encoded(picture().convert("RGBA"), "PNG"),
    "EXIF-rotated": rotated,
}


@pytest.mark.parametrize("sort", SORTS)
def test_sorts_of_image_files_are_read_as_preprocess_reads_them(server, own, sort):
    """A rotation that EXIF asks for is ignored, in training as in serving: pixels are taken as they are stored."""
    data = SORTS[sort]()
    given = tf.constant(preprocess_input(load_image(data, (16, 16, 3)))[None])
    expected = own()["serving_default"](images=given)["probabilities"].numpy()[0]
    status, answer = server.predict("photos", {"signature_name": "classify_bytes", "instances": [b64(data)]})
    assert status == 200
    assert np.allclose(answer["predictions"][0]["probabilities"], expected, atol=2e-3)


def test_a_png_of_16_bits_is_read_by_its_high_bytes(server, own):
    wide = np.random.default_rng(0).integers(0, 65536, (16, 16, 3), "uint16")
    data = tf.io.encode_png(wide).numpy()
    given = tf.constant(preprocess_input((wide >> 8).astype("float32"))[None])
    expected = own()["serving_default"](images=given)["probabilities"].numpy()[0]
    status, answer = server.predict("photos", {"signature_name": "classify_bytes", "instances": [b64(data)]})
    assert status == 200
    assert np.allclose(answer["predictions"][0]["probabilities"], expected, atol=1e-4)


def bomb() -> bytes:
    """A small PNG file of 80 megapixels: 10,000 x 8,000 of one bit."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 10_000, 8_000, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(8_000 * 1_251), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


BAD = {
    "no image": (lambda: b"no image", "expected an image file (JPEG, PNG, GIF or WebP), received 8 other bytes."),
    "empty": (lambda: b"", "expected an image file (JPEG, PNG, GIF or WebP), received 0 other bytes."),
    "corrupt JPEG": (lambda: encoded(picture(), "JPEG")[:300], ""),
    "bomb": (bomb, "expected an image of at most 1,000,000 pixels, received 10000 x 8000."),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_image_gets_its_sentence_and_spoils_no_other(server, own, name):
    make, sentence = BAD[name]
    bad, good = make(), encoded(picture(), "PNG")
    body = {"signature_name": "classify_bytes", "instances": [b64(good), b64(bad)]}
    status, answer = server.predict("photos", body)
    if "error" in own()["classify_bytes"].structured_outputs:
        assert status == 200
        fine, refused = answer["predictions"]
        expected = own()["classify_bytes"](image_bytes=tf.constant([good]))
        assert np.allclose(fine["probabilities"], expected["probabilities"][0], atol=1e-5)
        assert not fine["error"]
        assert refused["error"].endswith(sentence)
        assert refused["error"]
    else:
        assert status == 400
        assert answer["error"].endswith(sentence)
    status, answer = server.predict("photos", {"examples": [{"image_bytes": b64(bad)}]}, "classify")
    assert status == 400
    assert answer["error"].endswith(sentence)


# Requests that get no answer

ROWS = {"instances": [[[[0.0]]]]}
REFUSED = {
    "no JSON": ("photos:predict", b"{", 400, "JSON Parse error: "),
    "no object": ("photos:predict", b"[]", 400, "JSON Value: [] Is not object"),
    "missing key": ("photos:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    "both keys": ("photos:predict", {"inputs": 1, "instances": 1}, 400, "Not formatted correctly expecting only one"),
    "no list": ("photos:predict", {"instances": 1}, 400, "Expecting 'instances' to be an list/array"),
    "no rows": ("photos:predict", {"instances": []}, 400, "No values in 'instances' array"),
    "wrong shape": ("photos:predict", ROWS, 400, "images expected shape (any, 16, 16, 3), received (1, 1, 1, 1)"),
    "ragged": ("photos:predict", {"inputs": [[1], [1, 2]]}, 400, "images expected numbers of one shape, received"),
    "no numbers": ("photos:predict", {"inputs": "x"}, 400, 'images expected numbers of one shape, received "x"'),
    "other key": ("photos:predict", {"instances": [{"x": 1}]}, 400, "Failed to process element: 0 of 'instances' list"),
    "other input": ("photos:predict", {"inputs": {"x": 1}}, 400, "Missing named input: images in 'inputs' object."),
    "no base64": (
        "photos:predict",
        {"signature_name": "classify_bytes", "instances": [{"b64": "%"}]},
        400,
        "Unable to base64 decode",
    ),
    "unknown signature": (
        "photos:predict",
        {**ROWS, "signature_name": "x"},
        400,
        'Serving signature name: "x" not found in signature def',
    ),
    "no examples": ("photos:classify", {}, 400, "When method is classify, key 'examples' is expected"),
    "unknown model": ("cats:predict", ROWS, 404, "Servable not found for request: Latest(cats)"),
    "unknown version": ("photos/versions/9:predict", ROWS, 404, "Servable not found for request: Specific(photos, 9)"),
    "unknown verb": ("photos:regress", ROWS, 400, "Malformed request: POST /v1/models/photos:regress"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_tensorflow_serving_refuses_is_refused_in_its_words(server, name):
    path, body, status, sentence = REFUSED[name]
    received, answer = server.ask("POST", f"/v1/models/{path}", body)
    assert received == status
    assert answer.keys() == {"error"}
    assert answer["error"].startswith(sentence)


FLOATS = {"name": "images", "datatype": "FP32", "shape": [1, 16, 16, 3], "data": [0.0] * 768}
REFUSED_V2 = {
    "no JSON": (b"{", 400, "JSON Parse error: "),
    "no inputs": ({}, 400, "inputs expected a list of objects with name, shape and datatype"),
    "no shape": ({"inputs": [{"name": "images", "datatype": "FP32"}]}, 400, "inputs expected a list of objects"),
    "other input": ({"inputs": [{**FLOATS, "name": "x"}]}, 400, "inputs expected those of a signature ("),
    "other output": ({"inputs": [FLOATS], "outputs": [{"name": "x"}]}, 400, "outputs expected some of "),
    "other type": ({"inputs": [{**FLOATS, "datatype": "INT8"}]}, 400, "images expected datatype FP32, received INT8"),
    "other shape": (
        {"inputs": [{**FLOATS, "shape": [1, 3, 16, 16]}]},
        400,
        "images expected shape (any, 16, 16, 3), received (1, 3, 16, 16)",
    ),
    "fewer values": ({"inputs": [{**FLOATS, "data": [0.0]}]}, 400, "images expected the [1, 16, 16, 3] values"),
    "no data": ({"inputs": [{**FLOATS, "data": None}]}, 400, "images expected a list in data"),
    "cut short": (
        {"inputs": [{**FLOATS, "parameters": {"binary_data_size": 3072}}]},
        400,
        "images expected 3072 binary bytes, received 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED_V2)
def test_what_breaks_the_open_inference_protocol_is_refused_with_a_sentence(server, name):
    body, status, sentence = REFUSED_V2[name]
    received, answer = server.ask("POST", "/v2/models/photos/infer", body)
    assert received == status
    assert answer.keys() == {"error"}
    assert answer["error"].startswith(sentence)


def test_unknown_paths_models_and_versions(server):
    assert server.ask("GET", "/nothing") == (404, {"error": "Malformed request: GET /nothing"})
    not_found = {"error": "Servable not found for request: Latest(cats)"}
    for path in ("/v1/models/cats", "/v1/models/cats/metadata", "/v2/models/cats", "/v2/models/cats/ready"):
        assert server.ask("GET", path) == (404, not_found)
    not_found = {"error": "Servable not found for request: Specific(photos, 9)"}
    assert server.ask("GET", "/v1/models/photos/versions/9") == (404, not_found)


def test_a_body_past_the_limit_is_refused_unread(server):
    sentence = {"error": f"the body expected at most {MAX_BYTES:,} bytes, received more."}
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:  # its body never comes
        client.sendall(b"POST /v1/models/photos:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n")
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == sentence
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:  # of undeclared length
        client.sendall(b"POST /v1/models/photos:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"f4241\r\n" + bytes(1_000_001) + b"\r\n")
        assert received(client).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_its_body_too_slowly_is_let_go_and_holds_up_no_other(server, own, images):
    expected = own()["serving_default"](images=tf.constant(images))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(b'POST /v1/models/photos:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"inst')
        assert agrees(server.predict("photos", {"inputs": images.tolist()})[1]["outputs"], expected)
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body expected to arrive within 2 s, received 6 bytes." in answer


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    while chunk := client.recv(65536):
        data += chunk
    return data


# Under load


def test_many_clients_at_once_get_their_own_answers(server, own):
    """Floats and files of several models at once, so that batches meet; each answer is compared."""
    rng = np.random.default_rng(1)
    floats = rng.uniform(-1, 1, (8, 16, 16, 3)).astype("float32")
    files = [encoded(picture(seed), "JPEG") for seed in range(8)]
    cases = []
    for version in (1, 2):
        logits = own("photos", version)["serving_default"](images=tf.constant(floats))["logits"].numpy()
        scores = own("photos", version)["classify_bytes"](image_bytes=tf.constant(files))["probabilities"].numpy()
        path = f"photos/versions/{version}"
        cases += [(path, {"instances": [x.tolist()]}, "logits", y) for x, y in zip(floats, logits, strict=True)]
        asked = {"signature_name": "classify_bytes"}
        cases += [
            (path, {**asked, "instances": [b64(x)]}, "probabilities", y) for x, y in zip(files, scores, strict=True)
        ]
    grey = own("grey", 1)["classify_bytes"](image_bytes=tf.constant(files))["probabilities"].numpy()
    cases += [
        ("grey", {"signature_name": "classify_bytes", "instances": [b64(x)]}, "probabilities", y)
        for x, y in zip(files, grey, strict=True)
    ]
    bad = ("photos", {"signature_name": "classify_bytes", "instances": [b64(encoded(picture(), "JPEG")[:300])]})
    enough = Event()

    def client(number):
        answered = 0
        while not enough.is_set():
            path, body, output, expected = cases[(number * 5 + answered) % len(cases)]
            status, answer = server.predict(path, body)
            assert status == 200, answer
            assert np.allclose(answer["predictions"][0][output], expected, atol=1e-5), path
            if answered % 7 == 3:
                server.predict(*bad)  # a corrupt file in the batches of the others
            answered += 1
        return answered

    timer = Timer(6, enough.set)
    timer.start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answered = list(pool.map(client, range(CLIENTS)))
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
