"""Read the content of a TFLite file from its bytes, and add metadata to it."""

import importlib
import io
import json
import zipfile

import numpy as np

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.models.model_interface import ModelInterface


def require_builtin(flatbuffer: bytes) -> None:
    """Raise a ValueError that names the operators of a TFLite file outside the builtin set."""
    foreign = sorted(name for name in operators(flatbuffer) if name.startswith("CUSTOM:"))
    if foreign:
        raise ValueError(f"tflite expected builtin operators only, received {', '.join(foreign)}.")


def operators(flatbuffer: bytes) -> dict[str, int]:
    """Count the operators of a TFLite file by name. Names outside the builtin set are `CUSTOM:name`."""
    schema = schema_of_tflite()
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    codes = [
        f"CUSTOM:{code.customCode.decode()}"
        if code.customCode
        else names[max(code.builtinCode, code.deprecatedBuiltinCode)]
        for code in model.operatorCodes
    ]
    used = [codes[operator.opcodeIndex] for graph in model.subgraphs for operator in graph.operators]
    return {name: used.count(name) for name in dict.fromkeys(used)}


def stored_types(flatbuffer: bytes) -> dict[str, int]:
    """Return the bytes of constants in a TFLite file by type."""
    schema = schema_of_tflite()
    names = {code: name for name, code in vars(schema.TensorType).items() if isinstance(code, int)}
    model, sizes = schema.ModelT.InitFromPackedBuf(flatbuffer, 0), {}
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        data = model.buffers[tensor.buffer].data
        sizes[names[tensor.type]] = sizes.get(names[tensor.type], 0) + (0 if data is None else len(data))
    return sizes


def with_metadata(flatbuffer: bytes, interface: ModelInterface, precision: str) -> bytes:
    """Return a TFLite file with its metadata entry, and with its labels appended as an archive."""
    schema, builder = schema_of_tflite(), importlib.import_module("flatbuffers").Builder()
    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    entry, buffer = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer = KEY, len(model.buffers)
    buffer.data = np.frombuffer(metadata(interface, precision).encode(), "uint8")
    model.metadata, model.buffers = [*(model.metadata or ()), entry], [*model.buffers, buffer]
    builder.Finish(model.Pack(builder), b"TFL3")
    file = io.BytesIO(bytes(builder.Output()))
    if interface.labels:
        with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo("labels.txt"), "\n".join(interface.labels) + "\n")
    return file.getvalue()


def read_metadata(flatbuffer: bytes) -> dict:
    """Return the metadata of a TFLite file: input, normalisation, precision and labels."""
    model = schema_of_tflite().ModelT.InitFromPackedBuf(flatbuffer, 0)
    buffers = {entry.name.decode(): entry.buffer for entry in model.metadata}
    return json.loads(bytes(model.buffers[buffers[KEY]].data).decode())


def schema_of_tflite():
    """Return the module of TFLite's tables and enumerations."""
    return needed("ai-edge-litert", "ai_edge_litert.schema_py_generated", "tflite")
