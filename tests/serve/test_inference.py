"""The Open Inference Protocol over HTTP: responses are compared with the SavedModel's outputs, and errors."""

import base64
import json
import struct

import numpy as np
import pytest
import tensorflow as tf
from serving import agrees, encoded, picture
from support import needs_tensorflow

from keras_vit.serve.errors import Refusal
from keras_vit.serve.rest import check_shape

pytestmark = needs_tensorflow


def tensor_of(name, array, datatype="FP32", **more):
    return {"name": name, "datatype": datatype, "shape": list(array.shape), **more}


@pytest.mark.parametrize("count", [1, 3])
def test_floats_by_the_open_inference_protocol(server, own, images, count):
    images = images[:count]
    expected = own("photos", 1)["serving_default"](images=tf.constant(images))
    tensor = tensor_of("images", images, data=images.tolist())
    request = {"id": "7", "inputs": [tensor], "outputs": [{"name": "logits"}]}
    status, answer = server.ask("POST", "/v2/models/photos/versions/1/infer", request)
    assert status == 200
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("photos", "1", "7")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("logits", "FP32", [count, 7])
    assert np.allclose(np.reshape(output["data"], (count, 7)), expected["logits"], atol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_image_files_by_the_open_inference_protocol(server, own, count):
    files = [encoded(picture(seed), "JPEG") for seed in range(count)]
    expected = own()["classify_bytes"](image_bytes=tf.constant(files))
    data = [base64.b64encode(file).decode() for file in files]
    tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [count], "data": data}
    for said in ({"parameters": {"content_type": "base64"}}, {}):  # without a word it is told by how the text begins
        status, answer = server.ask("POST", "/v2/models/photos/infer", {"inputs": [{**tensor, **said}]})
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


# Requests that get no answer

FLOATS = {"name": "images", "datatype": "FP32", "shape": [1, 16, 16, 3], "data": [0.0] * 768}
REFUSED_V2 = {
    "no JSON": (b"{", 400, "JSON Parse error: "),
    "no inputs": ({}, 400, "inputs expected a list of objects with name, shape and datatype"),
    "no shape": ({"inputs": [{"name": "images", "datatype": "FP32"}]}, 400, "inputs expected a list of objects"),
    "other input": ({"inputs": [{**FLOATS, "name": "x"}]}, 400, "inputs expected the names of a signature's inputs ("),
    "other output": ({"inputs": [FLOATS], "outputs": [{"name": "x"}]}, 400, "outputs expected some of "),
    "other type": ({"inputs": [{**FLOATS, "datatype": "INT8"}]}, 400, "images expected datatype FP32, received INT8"),
    "other shape": (
        {"inputs": [{**FLOATS, "shape": [1, 3, 16, 16]}]},
        400,
        "images expected shape (any, 16, 16, 3), received (1, 3, 16, 16)",
    ),
    "fewer values": ({"inputs": [{**FLOATS, "data": [0.0]}]}, 400, "images expected the [1, 16, 16, 3] values"),
    "outputs no list": ({"inputs": [FLOATS], "outputs": 5}, 400, "outputs expected a list of objects with name"),
    "outputs no objects": ({"inputs": [FLOATS], "outputs": ["logits"]}, 400, "outputs expected a list of objects"),
    "output's name a list": ({"inputs": [FLOATS], "outputs": [{"name": ["x"]}]}, 400, "outputs expected a list of"),
    "endless shape": ({"inputs": [{**FLOATS, "shape": [10**25]}]}, 400, "inputs expected a list of objects with name"),
    "long shape": ({"inputs": [{**FLOATS, "shape": [1] * 99}]}, 400, "inputs expected a list of objects with name"),
    "no such values": (
        {"inputs": [{**FLOATS, "shape": [2**30, 16, 16, 3], "data": []}]},
        400,
        "images expected the [1073741824, 16, 16, 3] values of its shape, received 0",
    ),
    "null": (
        {"inputs": [{**FLOATS, "data": [None] + [0.0] * 767}]},
        400,
        "JSON Value: null Type: Null is not of expected type: float",
    ),
    "true": ({"inputs": [{**FLOATS, "data": [True] + [0.0] * 767}]}, 400, "JSON Value: true Type: True is not of"),
    "infinite": (
        json.dumps({"inputs": [FLOATS]}).replace("0.0", "1e999").encode(),
        400,
        "images expected finite numbers, received NaN or infinity",
    ),
    "too large": (
        {"inputs": [{**FLOATS, "data": [1e39] * 768}]},
        400,
        "images expected values within the range of float, received others",
    ),
    "half a surrogate pair": ({"inputs": [{**FLOATS, "name": "\ud800"}]}, 400, "JSON Parse error: 'utf-8' codec can't"),
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


@pytest.mark.parametrize("length", ["x", "-1", "3", "9" * 5000])
def test_a_length_of_the_json_that_is_none_is_refused(server, length):
    headers = {"Inference-Header-Content-Length": length}
    sentence = f"Inference-Header-Content-Length expected 0..2, received {length!r}"
    assert server.ask("POST", "/v2/models/photos/infer", b"{}", headers) == (400, {"error": sentence})


def test_a_free_side_of_nothing_is_refused():
    """An image of 2**31 x 0 pixels has no values to send, but more patches than fit into memory."""
    free = tf.TensorSpec((None, None, None, 3))
    for shape in ([1, 2**31 - 1, 0, 3], [2, 0, 8, 3]):
        with pytest.raises(Refusal) as refused:
            check_shape("images", shape, free)
        assert str(refused.value).startswith(f"images expected shape (any, any, any, 3), received {tuple(shape)}")
    check_shape("images", [0, 8, 8, 3], free)


def test_shapes_too_large_to_count_are_refused(server):
    """The product 2**32 x 2**32 is 0 in 64-bit integers."""
    for shape in ([2**32, 2**32], [2**31 - 1] * 3 + [0]):
        tensor = {"name": "images", "datatype": "FP32", "shape": shape, "data": []}
        status, answer = server.ask("POST", "/v2/models/photos/infer", {"inputs": [tensor]})
        assert (status, answer.keys()) == (400, {"error"})
