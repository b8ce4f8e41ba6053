"""A Keras model -> TensorFlow Lite, builtin operators only."""

import importlib
import io
import json
import re
import zipfile

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.models.interface import Interface

PRECISIONS = ("float32", "float16", "int8-dynamic")  # of the stored weights; the last computes products in int8


def convert(model: keras.Model, precision: str = "float32", batch: int | None = 1) -> bytes:
    """Convert a model to a TFLite file with the signature `serving_default`; its inputs and outputs are float32.

    The file says what it is: a metadata entry `keras_vit.json` holds labels and normalisation, and `labels.txt` is
    appended as an archive member, which is how TFLite's tools attach files (`unzip -p model.tflite labels.txt`).

    Args:
        model: a model of this package with a fixed image size.
        precision: one of `PRECISIONS`.
        batch: images a call; None for any number.

    Raises:
        ValueError: the image size is free, the precision is unknown, or the model needs operators outside TFLite's
            own.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision expected one of {PRECISIONS}, received {precision!r}.")
    module = ServingModule(in_dtype(model, "float32"))
    shape = module.interface.input_shape
    if None in shape:
        raise ValueError(f"tflite expected a model with a fixed image size, received input shape {shape}.")
    images = tf.TensorSpec((batch, *shape), tf.float32, name="images")
    function = tf.function(module.forward.python_function, autograph=False).get_concrete_function(images)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        flatbuffer = converter.convert()
    except Exception as error:  # the converter's errors share no base class
        foreign = re.search(r"(?:Select|Flex|Custom) ops: (.+)", str(error))
        reason = f"one with {foreign[1].strip()}" if foreign else str(error).strip().splitlines()[0]
        raise ValueError(f"tflite expected a model of TFLite's builtin operators, received {reason}.") from error
    require_builtin(flatbuffer)
    return _with_metadata(flatbuffer, module.interface, precision)


def _with_metadata(flatbuffer: bytes, interface: Interface, precision: str) -> bytes:
    """The file with its metadata entry, and with its labels appended as an archive."""
    schema, builder = _import("schema_py_generated"), importlib.import_module("flatbuffers").Builder()
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
    """What `convert` wrote into a file: input, normalisation, precision and labels."""
    model = _import("schema_py_generated").ModelT.InitFromPackedBuf(flatbuffer, 0)
    found = {entry.name.decode(): entry.buffer for entry in model.metadata}
    return json.loads(bytes(model.buffers[found[KEY]].data).decode())


def require_builtin(flatbuffer: bytes) -> None:
    """Raise a ValueError naming the operators of a TFLite file that are not TFLite's own."""
    foreign = sorted(name for name in operators(flatbuffer) if name.startswith("CUSTOM:"))
    if foreign:
        raise ValueError(f"tflite expected builtin operators only, received {', '.join(foreign)}.")


def operators(flatbuffer: bytes) -> dict[str, int]:
    """How often each operator stands in a TFLite file, by name; one outside the builtin set is `CUSTOM:name`."""
    schema = _import("schema_py_generated")
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    codes = [
        f"CUSTOM:{code.customCode.decode()}"
        if code.customCode
        else names[max(code.builtinCode, code.deprecatedBuiltinCode)]
        for code in model.operatorCodes
    ]
    found = [codes[operator.opcodeIndex] for graph in model.subgraphs for operator in graph.operators]
    return {name: found.count(name) for name in dict.fromkeys(found)}


def stored_types(flatbuffer: bytes) -> dict[str, int]:
    """How many bytes of constants a TFLite file holds in each type."""
    schema = _import("schema_py_generated")
    names = {code: name for name, code in vars(schema.TensorType).items() if isinstance(code, int)}
    model, found = schema.ModelT.InitFromPackedBuf(flatbuffer, 0), {}
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        data = model.buffers[tensor.buffer].data
        found[names[tensor.type]] = found.get(names[tensor.type], 0) + (0 if data is None else len(data))
    return found


def runner(flatbuffer: bytes):
    """A function (images=(B, H, W, C)) -> outputs by name that runs a TFLite file, image by image or as one batch.

    Raises:
        ValueError: the interpreter is not installed.
    """
    interpreter = _import("interpreter").Interpreter(model_content=flatbuffer)
    run = interpreter.get_signature_runner("serving_default")

    free = run.get_input_details()["images"]["shape_signature"][0] == -1

    def infer(*, images: np.ndarray) -> dict[str, np.ndarray]:
        if free:
            return run(images=images.astype("float32"))
        answers = [run(images=image[None].astype("float32")) for image in images]
        return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}

    return infer


def _import(module: str):
    return needed("ai-edge-litert", f"ai_edge_litert.{module}", "tflite")
