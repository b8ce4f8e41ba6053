"""TensorFlow Serving's REST API over HTTP: responses are compared with the SavedModel's outputs, and errors."""

import numpy as np
import pytest
import tensorflow as tf
from serving import agrees, b64, column, encoded, picture
from support import needs_tensorflow

pytestmark = needs_tensorflow


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


# Requests that get no answer

ROWS = {"instances": [[[[0.0]]]]}
REFUSED = {
    "no JSON": ("photos:predict", b"{", 400, "JSON Parse error: "),
    "no object": ("photos:predict", b"[]", 400, "JSON Value: [] Is not object"),
    "missing key": ("photos:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    "both keys": ("photos:predict", {"inputs": 1, "instances": 1}, 400, "Not formatted correctly expecting only one"),
    "no list": ("photos:predict", {"instances": 1}, 400, "Expecting 'instances' to be an list/array"),
    "no rows": ("photos:predict", {"instances": []}, 400, "No values in 'instances' array"),
    "no columns": ("photos:predict", {"inputs": []}, 400, "images expected "),
    "wrong shape": ("photos:predict", ROWS, 400, "images expected shape (any, 16, 16, 3), received (1, 1, 1, 1)"),
    "ragged": ("photos:predict", {"inputs": [[1], [1, 2]]}, 400, "images expected float values of one shape"),
    "no numbers": (
        "photos:predict",
        {"inputs": "x"},
        400,
        'JSON Value: "x" Type: String is not of expected type: float',
    ),
    "null": (
        "photos:predict",
        {"inputs": [None, 0.0]},
        400,
        "JSON Value: null Type: Null is not of expected type: float",
    ),
    "a number as text": ("photos:predict", {"inputs": ["1.5", 0.0]}, 400, 'JSON Value: "1.5" Type: String is not of'),
    "true": (
        "photos:predict",
        {"inputs": [0.0, True]},
        400,
        "JSON Value: true Type: True is not of expected type: float",
    ),
    "too large": ("photos:predict", {"inputs": [1e39]}, 400, "images expected values within the range of float"),
    "too large by far": (
        "photos:predict",
        {"inputs": [10**400]},
        400,
        "images expected values within the range of float",
    ),
    "nested deeply": (
        "photos:predict",
        b'{"signature_name": "classify_bytes", "inputs": ' + b"[" * 900 + b"]" * 900 + b"}",
        400,
        "JSON Value: ",
    ),
    "nested deeply, of numbers": (
        "photos:predict",
        b'{"inputs": ' + b"[" * 900 + b"]" * 900 + b"}",
        400,
        "images expected float values of one shape, received [[[[",
    ),
    "nested 64 deep": (
        "photos:predict",
        b'{"inputs": ' + b"[" * 64 + b"1" + b"]" * 64 + b"}",
        400,
        "images expected shape",
    ),
    "nested past JSON's reader": ("photos:predict", b"[" * 100_000, 400, "JSON Parse error: "),
    "a number as a string": (
        "photos:predict",
        {"signature_name": "classify_bytes", "inputs": [1]},
        400,
        "JSON Value: 1 Type: Number is not of expected type: string",
    ),
    "half a surrogate pair": (
        "photos:predict",
        {"signature_name": "\ud800"},
        400,
        "JSON Parse error: 'utf-8' codec can't",
    ),
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
    "a file for floats": (
        "photos:predict",
        {"instances": [{"b64": "aGk="}]},
        400,
        'JSON Value: {"b64": "aGk="} Type: Object is not of expected type: float; '
        '"signature_name": "classify_bytes" takes image_bytes',
    ),
    "files of another signature": (
        "photos:predict",
        {"inputs": {"image_bytes": [{"b64": "aGk="}]}},
        400,
        'Missing named input: images in \'inputs\' object; "signature_name": "classify_bytes" takes image_bytes',
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


def test_unknown_paths_models_and_versions(server):
    assert server.ask("GET", "/nothing") == (404, {"error": "Malformed request: GET /nothing"})
    not_found = {"error": "Servable not found for request: Latest(cats)"}
    for path in ("/v1/models/cats/metadata", "/v2/models/cats", "/v2/models/cats/ready"):
        assert server.ask("GET", path) == (404, not_found)
    not_found = {"error": "Servable not found for request: Specific(photos, 9)"}
    assert server.ask("GET", "/v1/models/photos/versions/9/metadata") == (404, not_found)
    many = "9" * 5000
    for path, status in ((f"/v1/models/photos/versions/{many}", 400), (f"/v2/models/photos/versions/{many}", 404)):
        assert server.ask("GET", path) == (status, {"error": f"Malformed request: GET {path}"})


def test_the_status_of_what_is_unknown_is_told_in_words_of_its_own(server):
    not_found = {"error": "Could not find any versions of model cats"}
    assert server.ask("GET", "/v1/models/cats") == (404, not_found)
    for name in ("photos", "cats"):
        not_found = {"error": f"Could not find version 9 of model {name}"}
        assert server.ask("GET", f"/v1/models/{name}/versions/9") == (404, not_found)
