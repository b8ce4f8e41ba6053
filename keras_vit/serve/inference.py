"""Read and write the Open Inference Protocol, version 2, with binary tensors.

A request selects a signature by `signature_name` in `parameters`, else by the names of its inputs and outputs.
Image files have the datatype BYTES: binary tensors, or base64 in JSON with `"parameters": {"content_type": "base64"}`.
https://github.com/kserve/open-inference-protocol
"""

import json

import numpy as np
import tensorflow as tf

from keras_vit.serve.errors import Refusal
from keras_vit.serve.repository import Model, Version
from keras_vit.serve.rest import as_numbers, check_shape, decode_base64, read_json
from keras_vit.serve.signature import Signature

DATATYPES = {
    tf.string: "BYTES", tf.bool: "BOOL", tf.float16: "FP16", tf.float32: "FP32", tf.float64: "FP64",
    tf.int8: "INT8", tf.int16: "INT16", tf.int32: "INT32", tf.int64: "INT64",
    tf.uint8: "UINT8", tf.uint16: "UINT16", tf.uint32: "UINT32", tf.uint64: "UINT64",
}  # fmt: skip
MAX_RANK = 8  # the highest rank that most TensorFlow operations support


def metadata(model: Model, version: Version) -> dict:
    """Return the model's metadata: its name, its versions and the tensors of the first signature.

    `parameters` lists all signatures, the range of float images, and whether EXIF orientations are applied.
    """
    first = next(iter(version.signatures.values()))
    return {
        "name": model.name,
        "versions": [str(number) for number in sorted(model.versions)],
        "platform": "tensorflow_savedmodel",
        "inputs": _tensors(first.inputs),
        "outputs": _tensors(first.outputs),
        "parameters": {"signature_names": ",".join(version.signatures), **_range(version)},
    }


def read_infer(body: bytes, header_length: str | None, version: Version):
    """Parse a request.

    Args:
        body: JSON, followed by binary tensors.
        header_length: value of `Inference-Header-Content-Length`, the size of the JSON; None without binary tensors.
        version: the requested version of the model.

    Returns:
        The signature, its arrays by name, and the JSON object.

    Raises:
        Refusal: the request violates the protocol, or its tensors do not fit the signature.
    """
    given = str(len(body)) if header_length is None else header_length
    size = int(given) if given.isdecimal() and len(given) < 20 else -1  # `int` fails on thousands of digits
    if not 0 <= size <= len(body):
        raise Refusal(400, f"Inference-Header-Content-Length expected 0..{len(body)}, received {given!r}")
    request, binary = read_json(body[:size], allow_nan=False), memoryview(body)[size:]
    tensors = request.get("inputs")
    if not isinstance(tensors, list) or not tensors or not all(_is_tensor(tensor) for tensor in tensors):
        raise Refusal(400, "inputs expected a list of objects with name, shape and datatype")
    outputs = request.get("outputs") or []
    if not isinstance(outputs, list) or not all(
        isinstance(o, dict) and isinstance(o.get("name"), str) for o in outputs
    ):
        raise Refusal(400, "outputs expected a list of objects with name")
    signature = _signature(request, {tensor["name"] for tensor in tensors}, version)
    arrays = {}
    for tensor in tensors:
        name, spec = tensor["name"], signature.inputs[tensor["name"]]
        if tensor["datatype"] != DATATYPES.get(spec.dtype):
            raise Refusal(400, f"{name} expected datatype {DATATYPES[spec.dtype]}, received {tensor['datatype']}")
        check_shape(name, tensor["shape"], spec)
        given = _parameters(tensor)
        if (length := given.get("binary_data_size")) is not None:
            if type(length) is not int or not 0 <= length <= len(binary):
                raise Refusal(400, f"{name} expected {length} binary bytes, received {len(binary)}")
            values, binary = _from_binary(name, bytes(binary[:length]), spec), binary[length:]
        else:
            values = _from_json(name, tensor.get("data"), spec, given.get("content_type"))
        if spec.dtype.is_floating and not np.isfinite(values).all():
            raise Refusal(400, f"{name} expected finite numbers, received NaN or infinity")
        try:
            arrays[name] = values.reshape(tensor["shape"])
        except ValueError:
            sentence = f"{name} expected the {tensor['shape']} values of its shape, received {values.size}"
            raise Refusal(400, sentence) from None
    return signature, arrays, request


def write_infer(outputs: dict[str, np.ndarray], request: dict, signature: Signature, version: Version):
    """Return the response: the JSON, and the requested binary tensors, which follow the JSON."""
    requested = {tensor["name"]: _parameters(tensor) for tensor in request.get("outputs") or []}
    everywhere = bool(_parameters(request).get("binary_data_output"))
    tensors, chunks = [], []
    for name in requested or outputs:
        value, spec = outputs[name], signature.outputs[name]
        tensor = {"name": name, "datatype": DATATYPES[spec.dtype], "shape": list(value.shape)}
        if requested.get(name, {}).get("binary_data", everywhere):
            chunks.append(_to_binary(value))
            tensor["parameters"] = {"binary_data_size": len(chunks[-1])}
        elif spec.dtype == tf.string:
            tensor["data"] = [data.decode(errors="replace") for data in value.ravel()]
        else:
            tensor["data"] = value.ravel().tolist()
            if spec.dtype.is_floating and not np.isfinite(value).all():  # JSON has no NaN
                tensor["data"] = [x if np.isfinite(x) else None for x in tensor["data"]]
        tensors.append(tensor)
    answer = {"model_name": version.model, "model_version": str(version.number), "outputs": tensors}
    if isinstance(request.get("id"), str):
        answer["id"] = request["id"]
    return json.dumps(answer).encode(), b"".join(chunks)


def _range(version: Version) -> dict:
    try:
        low, high = version.manifest["input"]["range"]
    except (KeyError, TypeError, ValueError):
        return {}
    return {"input_low": low, "input_high": high, "exif": version.manifest["input"].get("exif") is True}


def _signature(request: dict, names: set[str], version: Version) -> Signature:
    requested = {tensor["name"] for tensor in request.get("outputs") or []}
    if (name := _parameters(request).get("signature_name")) is not None:
        candidates = [version.signature(name)] if isinstance(name, str) else []
    else:
        candidates = list(version.signatures.values())
    candidates = [signature for signature in candidates if signature.inputs.keys() == names]
    if not candidates:
        known = "; ".join(f"{s.name} takes {', '.join(s.inputs)}" for s in version.signatures.values())
        raise Refusal(
            400, f"inputs expected the names of a signature's inputs ({known}), received {', '.join(sorted(names))}"
        )
    for signature in candidates:
        if requested <= signature.outputs.keys():
            return signature
    raise Refusal(400, f"outputs expected some of {', '.join(candidates[0].outputs)}, received "
                       f"{', '.join(sorted(map(str, requested)))}")  # fmt: skip


def _is_tensor(tensor) -> bool:
    return (
        isinstance(tensor, dict)
        and isinstance(tensor.get("name"), str)
        and isinstance(tensor.get("datatype"), str)
        and isinstance(tensor.get("shape"), list)
        and len(tensor["shape"]) <= MAX_RANK
        and all(type(side) is int and 0 <= side < 2**31 for side in tensor["shape"])
    )


def _parameters(of: dict) -> dict:
    parameters = of.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _tensors(specs: dict[str, tf.TensorSpec]) -> list[dict]:
    return [
        {
            "name": name,
            "datatype": DATATYPES[spec.dtype],
            "shape": [-1 if side is None else side for side in spec.shape],
        }
        for name, spec in specs.items()
    ]


def _from_json(name: str, data, spec: tf.TensorSpec, content_type) -> np.ndarray:
    if not isinstance(data, list):
        raise Refusal(400, f"{name} expected a list in data, or binary_data_size in parameters")
    if spec.dtype != tf.string:
        return as_numbers(name, data, spec).ravel()
    if not all(isinstance(item, str) for item in data):
        raise Refusal(400, f"{name} expected strings in data")
    read = decode_base64 if content_type == "base64" else str.encode
    return np.array([read(item) for item in data], object)


def _from_binary(name: str, data: bytes, spec: tf.TensorSpec) -> np.ndarray:
    """Decode a binary tensor: little-endian values, or strings that follow their lengths in 4 bytes."""
    if spec.dtype != tf.string:
        dtype = np.dtype(spec.dtype.as_numpy_dtype).newbyteorder("<")
        if len(data) % dtype.itemsize:
            raise Refusal(400, f"{name} expected binary values of {dtype.itemsize} bytes, received {len(data)} bytes")
        return np.frombuffer(data, dtype)
    strings, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        strings.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(data):
        raise Refusal(400, f"{name} expected strings of the lengths in front of them, received {len(data)} bytes")
    return np.array(strings, object)


def _to_binary(value: np.ndarray) -> bytes:
    if value.dtype == object:
        return b"".join(len(data).to_bytes(4, "little") + data for data in value.ravel())
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
