"""Read and write the bodies of TensorFlow Serving's REST API, with its error messages.

`instances` are rows: one object or value per image. `inputs` are columns: one array per input. B batch.
https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
import json
import math

import numpy as np
import tensorflow as tf

from keras_vit.preprocessing.kinds import kind_of
from keras_vit.private import name_of_dtype
from keras_vit.serve.errors import HOW_TO_SEND, Refusal
from keras_vit.serve.repository import Repository, Version
from keras_vit.serve.signature import Signature

JSON_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}


def read_json(body: bytes, allow_nan: bool = True) -> dict:
    """Parse a body and return its JSON object. TensorFlow Serving's JSON also has `NaN` and `Infinity`.

    Raises:
        Refusal: the body is not JSON, or no object.
    """

    def no_number(token):
        raise ValueError(f"{token} is no number of JSON")

    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_constant=None if allow_nan else no_number)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises an error for half a surrogate pair
    except (ValueError, RecursionError) as error:
        if kind := kind_of(body):
            raise Refusal(400, f"the body expected JSON, received a {kind} file: {HOW_TO_SEND}") from None
        raise Refusal(400, f"JSON Parse error: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, f"JSON Value: {_shown(value)} Is not object")
    return value


def read_predict(request: dict, version: Version) -> tuple[Signature, dict[str, np.ndarray], bool]:
    """Parse a `:predict` request. Return the signature, its arrays, and whether they came as rows.

    Raises:
        Refusal: the request violates TensorFlow Serving's format, or its values do not fit the signature.
    """
    signature = version.signature(_signature_name(request, "serving_default"))
    try:
        return signature, _arrays(request, signature), "instances" in request
    except Refusal as refusal:
        if request.get("signature_name") or not (other := _other_signature(request, signature, version)):
            raise
        raise Refusal(refusal.status, f"{refusal.sentence.removesuffix('.')}; {other}") from None


def _arrays(request: dict, signature: Signature) -> dict[str, np.ndarray]:
    if "instances" in request and "inputs" in request:
        raise Refusal(400, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" in request:
        rows = request["instances"]
        if not isinstance(rows, list):
            raise Refusal(400, "Expecting 'instances' to be an list/array")
        if not rows:
            raise Refusal(400, "No values in 'instances' array")
        columns = _columns(rows, signature)
    elif "inputs" in request:
        columns = request["inputs"]
        if not isinstance(columns, dict) or _is_base64(columns):
            columns = {_only_input(signature, "inputs"): columns}
        for name in signature.inputs:
            if name not in columns:
                raise Refusal(400, f"Missing named input: {name} in 'inputs' object.")
    else:
        raise Refusal(400, "Missing 'inputs' or 'instances' key")
    return {name: as_array(name, columns[name], spec) for name, spec in signature.inputs.items()}


def _other_signature(request: dict, signature: Signature, version: Version) -> str:
    """Return a hint for a request that names no signature but has the inputs of another one."""
    given = request.get("instances") or request.get("inputs")
    first = given[0] if isinstance(given, list) and given else given
    names = first.keys() if isinstance(first, dict) and not _is_base64(first) else ()
    for other in version.signatures.values():
        takes_files = [spec.dtype for spec in other.inputs.values()] == [tf.string]
        meant = other.inputs.keys() == set(names) or (takes_files and _is_base64(first))
        if meant and other.inputs.keys() != signature.inputs.keys():
            return f'"signature_name": "{other.name}" takes {", ".join(other.inputs)}'
    return ""


def read_classify(request: dict, version: Version) -> tuple[Signature, dict[str, np.ndarray]]:
    """Parse a `:classify` request. Return the signature, by default `classify_bytes`, and its arrays."""
    signature = version.signature(_signature_name(request, "classify_bytes"))
    if not {"labels", "scores"} <= signature.outputs.keys():
        raise Refusal(400, f"Expected a classification signature, {signature.name} has no labels and scores")
    rows, context = request.get("examples"), request.get("context", {})
    if rows is None:
        raise Refusal(400, "When method is classify, key 'examples' is expected and was not found")
    if not isinstance(rows, list):
        raise Refusal(400, "Expecting 'examples' value to be an list/array")
    if not rows:
        raise Refusal(400, "'examples' value is an empty array")
    if not isinstance(context, dict) or not all(isinstance(row, dict) for row in rows):
        raise Refusal(400, "Example must be JSON object")
    # A feature of an Example is a list, so an image is a list of one element.
    rows = [{name: v[0] if isinstance(v, list) and len(v) == 1 else v for name, v in {**context, **row}.items()}
            for row in rows]  # fmt: skip
    columns = _columns(rows, signature)
    return signature, {name: as_array(name, columns[name], spec) for name, spec in signature.inputs.items()}


def write_predict(outputs: dict[str, np.ndarray], rows: bool) -> dict:
    """Return the response to `:predict`, as rows or columns. A single output has no name."""
    columns = {name: _as_json(name, value) for name, value in outputs.items()}
    if not rows:
        return {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def write_classify(outputs: dict[str, np.ndarray]) -> dict:
    """Return the response to `:classify`: [label, score] pairs for each example, best first.

    Raises:
        Refusal: an image could not be decoded; this format has no field for errors.
    """
    for sentence in outputs.get("error", ()):
        if sentence:
            raise Refusal(400, sentence.decode())
    pairs = zip(_as_json("labels", outputs["labels"]), outputs["scores"].tolist(), strict=True)
    return {"results": [[list(pair) for pair in zip(labels, scores, strict=True)] for labels, scores in pairs]}


def status(repository: Repository, name: str, number: int | None) -> dict:
    """Return the response to `GET /v1/models/NAME`: each version and whether it is served."""
    model = repository.models.get(name)
    # Copy the failures first: `Model.poll` removes one after adding the loaded version.
    failures, versions = (dict(model.failures), model.versions) if model else ({}, {})
    known = sorted({*versions, *failures}, reverse=True)
    numbers = known if number is None else [found for found in known if found == number]
    if not numbers:
        what = "any versions" if number is None else f"version {number}"
        raise Refusal(404, f"Could not find {what} of model {name}")
    rows = []
    for found in numbers:
        reason = "" if found in versions else failures[found]
        code = {"error_code": "UNKNOWN" if reason else "OK", "error_message": reason}
        rows.append({"version": str(found), "state": "END" if reason else "AVAILABLE", "status": code})
    return {"model_version_status": rows}


def metadata(version: Version) -> dict:
    """Return the response to `GET /v1/models/NAME/metadata`: the SavedModel's signature definitions."""
    spec = {"name": version.model, "signature_name": "", "version": str(version.number)}
    return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": version.definitions}}}


def as_array(name: str, value, spec: tf.TensorSpec) -> np.ndarray:
    """Convert a JSON value to the array of an input.

    Raises:
        Refusal: the value has another type or shape.
    """
    array = _as_bytes(value, spec) if spec.dtype == tf.string else as_numbers(name, value, spec)
    check_shape(name, array.shape, spec)
    return array


def as_numbers(name: str, value, spec: tf.TensorSpec) -> np.ndarray:
    """Convert the numbers of a JSON value to an array of the input's dtype.

    NumPy alone would also convert `null`, `true` and "1".

    Raises:
        Refusal: a value has another type, or is out of range.
    """
    array = np.asarray(value, object)
    wanted = {bool} if spec.dtype.is_bool else {int, float} if spec.dtype.is_floating else {int}
    leaves = array.ravel()  # NumPy's iterators support 32 axes, nested lists can have 64
    wrong = set(map(type, leaves.flat)) - wanted
    if list in wrong:
        raise Refusal(400, f"{name} expected {_type_name(spec)} values of one shape, received {_shown(value)}")
    if wrong:
        raise _wrong_type(next(leaf for leaf in leaves.flat if type(leaf) in wrong), spec)
    try:
        with np.errstate(over="ignore"):
            numbers = leaves.astype(spec.dtype.as_numpy_dtype)
        if spec.dtype.is_floating and any(map(math.isfinite, leaves[np.isinf(numbers)])):
            raise OverflowError
    except OverflowError:
        raise Refusal(400, f"{name} expected values within the range of {_type_name(spec)}, received others") from None
    return numbers.reshape(array.shape)


def check_shape(name: str, shape, spec: tf.TensorSpec) -> None:
    """Raise a Refusal if a shape does not fit the input, or an axis after the batch is 0."""
    if not spec.shape.is_compatible_with(shape) or 0 in tuple(shape)[1:]:
        wanted = ", ".join("any" if side is None else str(side) for side in spec.shape)
        raise Refusal(400, f"{name} expected shape ({wanted}), received {tuple(shape)}")


def decode_base64(value: str) -> bytes:
    """Decode base64 text, or raise a Refusal."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, "Unable to base64 decode") from None


def _signature_name(request: dict, default: str) -> str:
    name = request.get("signature_name", default)
    if not isinstance(name, str):
        raise Refusal(400, "'signature_name' key must be a string value.")
    return name or default


def _columns(rows: list, signature: Signature) -> dict[str, list]:
    """Convert rows, all objects or all plain values, to one list per input."""
    named = isinstance(rows[0], dict) and not _is_base64(rows[0])
    if not named:
        only = _only_input(signature, "instances")
    columns = {name: [] for name in signature.inputs}
    for i, row in enumerate(rows):
        if named != (isinstance(row, dict) and not _is_base64(row)):
            received = "list" if named else "object"
            raise Refusal(400, f"Expecting {'object' if named else 'value/list'} but got {received} at item {i} "
                               "of input list")  # fmt: skip
        row = row if named else {only: row}
        if row.keys() != columns.keys():
            keys = ",".join(sorted(columns))
            raise Refusal(400, f"Failed to process element: {i} of 'instances' list. JSON object: {_shown(row)} "
                               f"keys must be equal to: {keys}")  # fmt: skip
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _only_input(signature: Signature, key: str) -> str:
    if len(signature.inputs) != 1:
        raise Refusal(400, f"{key} is a plain list, but expecting an object as multiple input tensors required")
    return next(iter(signature.inputs))


def _is_base64(value) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _as_bytes(value, spec: tf.TensorSpec) -> np.ndarray:
    """Convert strings and {"b64": ...} in nested lists to an array of bytes."""

    def read(leaf):
        if _is_base64(leaf):
            return decode_base64(leaf["b64"])
        if not isinstance(leaf, str):
            raise _wrong_type(leaf, spec)
        return leaf.encode()

    return np.asarray(np.frompyfunc(read, 1, 1)(np.asarray(value, object)), object)


def _as_json(name: str, value: np.ndarray):
    """Convert an array to nested lists. Strings are base64 if the name ends in `_bytes`, as in TensorFlow Serving."""
    if value.dtype != object:
        return value.tolist()
    if name.endswith("_bytes"):
        written = np.frompyfunc(lambda data: {"b64": base64.b64encode(data).decode()}, 1, 1)(value)
    else:
        written = np.frompyfunc(lambda data: data.decode(errors="replace"), 1, 1)(value)
    return written.tolist() if isinstance(written, np.ndarray) else written


def _type_name(spec: tf.TensorSpec) -> str:
    """Return TensorFlow Serving's name of a dtype, such as `float`."""
    return name_of_dtype(spec.dtype).removeprefix("DT_").lower()


def _wrong_type(value, spec: tf.TensorSpec) -> Refusal:
    of = str(value) if isinstance(value, bool) else JSON_TYPES[type(value)]
    return Refusal(400, f"JSON Value: {_shown(value)} Type: {of} is not of expected type: {_type_name(spec)}")


def _shown(value) -> str:
    text = ""
    for part in json.JSONEncoder().iterencode(value):  # stop after the shown part: the rest may be megabytes
        text += part
        if len(text) > 80:
            return f"{text[:77]}..."
    return text
