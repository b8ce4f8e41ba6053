"""A Keras model -> TensorFlow Lite, builtin operators only."""

import importlib
import io
import json
import re
import zipfile
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.models.interface import Interface

METADATA = "keras_vit.json"


@dataclass(frozen=True)
class Precision:
    """How a TFLite file stores and computes.

    Args:
        operators: kernel sets of the converter, by their names in `tf.lite.OpsSet`.
        optimised: whether weights are stored smaller than float32.
        half: whether they are float16.
        calibrated: whether ranges of activations are measured on images.
        kept_float: converter's operators that stay float32 in a calibrated file.
    """

    operators: tuple[str, ...] = ("TFLITE_BUILTINS",)
    optimised: bool = True
    half: bool = False
    calibrated: bool = False
    kept_float: tuple[str, ...] = ()


PRECISIONS = {
    "float32": Precision(optimised=False),
    "float16": Precision(half=True),
    "int8-dynamic": Precision(),
    "int8": Precision(("TFLITE_BUILTINS_INT8", "TFLITE_BUILTINS"), calibrated=True, kept_float=KEPT_FLOAT),
    "int16x8": Precision(
        ("EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8", "TFLITE_BUILTINS"), calibrated=True
    ),
}


def convert(
    model: keras.Model, precision: str = "float32", calibration: np.ndarray | None = None, batch: int | None = 1
) -> bytes:
    """Convert a model to a TFLite file with the signature `serving_default`; its inputs and outputs are float32.

    The file says what it is: a metadata entry `keras_vit.json` holds labels and normalisation, and `labels.txt` is
    appended as an archive member, which is how TFLite's tools attach files (`unzip -p model.tflite labels.txt`).

    Args:
        model: a model of this package with a fixed image size.
        precision: one of `PRECISIONS`.
        calibration: (N, H, W, C) real images in the model's own range, which `int8` and `int16x8` measure ranges on.
        batch: images a call; None for any number.

    Raises:
        ValueError: the image size is free, the precision is unknown or lacks its images, or the model needs operators
            outside TFLite's own.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision expected one of {tuple(PRECISIONS)}, received {precision!r}.")
    row = PRECISIONS[precision]
    if row.calibrated and (calibration is None or not len(calibration)):
        raise ValueError(f"calibration expected real images to measure {precision}'s ranges on, received none.")
    module = ServingModule(in_dtype(model, "float32"))
    shape = module.interface.input_shape
    if None in shape:
        raise ValueError(f"tflite expected a model with a fixed image size, received input shape {shape}.")
    images = tf.TensorSpec((batch, *shape), tf.float32, name="images")
    function = tf.function(module.forward.python_function, autograph=False).get_concrete_function(images)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [getattr(tf.lite.OpsSet, name) for name in row.operators]
    if row.optimised:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if row.half:
        converter.target_spec.supported_types = [tf.float16]
    if row.calibrated:
        converter.representative_dataset = lambda: ([image[None].astype("float32")] for image in calibration)
    try:
        flatbuffer = _selective(converter, row.kept_float) if row.kept_float else converter.convert()
    except Exception as error:  # the converter's errors share no base class
        foreign = re.search(r"(?:Select|Flex|Custom) ops: (.+)", str(error))
        reason = f"one with {foreign[1].strip()}" if foreign else str(error).strip().splitlines()[0]
        raise ValueError(f"tflite expected a model of TFLite's builtin operators, received {reason}.") from error
    require_builtin(flatbuffer)
    return _with_metadata(flatbuffer, module.interface, precision)


def _selective(converter, kept_float) -> bytes:
    options = tf.lite.experimental.QuantizationDebugOptions(denylisted_ops=list(kept_float))
    debugger = tf.lite.experimental.QuantizationDebugger(
        converter=converter, debug_dataset=converter.representative_dataset, debug_options=options
    )
    return debugger.get_nondebug_quantized_model()


def _with_metadata(flatbuffer: bytes, interface: Interface, precision: str) -> bytes:
    """The file with its metadata entry, and with its labels appended as an archive."""
    schema, builder = _import("schema_py_generated"), importlib.import_module("flatbuffers").Builder()
    low, high = interface.input_range
    said = {
        "input": {"name": "images", "shape": interface.input_shape, "range": interface.input_range},
        "normalisation": {"of_pixels": [0, 255], "mean": -low * 255 / (high - low), "std": 255 / (high - low)},
        "precision": precision,
        "labels": interface.labels,
    }
    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    entry, buffer = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer = METADATA, len(model.buffers)
    buffer.data = np.frombuffer(json.dumps(said, ensure_ascii=False).encode(), "uint8")
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
    return json.loads(bytes(model.buffers[found[METADATA]].data).decode())


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


def runner(flatbuffer: bytes):
    """A function (images=(B, H, W, C)) -> outputs by name that runs a TFLite file image by image.

    Raises:
        ValueError: the interpreter is not installed.
    """
    interpreter = _import("interpreter").Interpreter(model_content=flatbuffer)
    run = interpreter.get_signature_runner("serving_default")

    def infer(*, images: np.ndarray) -> dict[str, np.ndarray]:
        answers = [run(images=image[None].astype("float32")) for image in images]
        return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}

    return infer


def _import(module: str):
    try:
        return importlib.import_module(f"ai_edge_litert.{module}")
    except ImportError:
        raise ValueError(
            "format tflite expected ai-edge-litert, which `pip install keras_vit[formats]` brings."
        ) from None
