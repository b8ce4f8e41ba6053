"""A Keras model -> TensorFlow Lite, builtin operators only."""

import importlib
import re

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.saved_model import ServingModule

DTYPES = ("float32", "float16")


def convert(model: keras.Model, dtype: str = "float32") -> bytes:
    """Convert a model to a TFLite file that classifies one image a call, with the signature `serving_default`.

    Args:
        model: a model of this package with a fixed image size.
        dtype: of the stored weights, `float32` or `float16`; inputs and outputs are float32.

    Raises:
        ValueError: the image size is free, the dtype is unknown, or the model needs operators outside TFLite's own.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype expected one of {DTYPES}, received {dtype!r}.")
    module = ServingModule(_in_float32(model))
    shape = module.interface.input_shape
    if None in shape:
        raise ValueError(f"tflite expected a model with a fixed image size, received input shape {shape}.")
    one_image = tf.TensorSpec((1, *shape), tf.float32, name="images")
    function = tf.function(module.forward.python_function, autograph=False).get_concrete_function(one_image)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if dtype == "float16":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    try:
        flatbuffer = converter.convert()
    except Exception as error:  # the converter's errors share no base class
        foreign = re.search(r"(?:Select|Flex|Custom) ops: (.+)", str(error))
        reason = f"one with {foreign[1].strip()}" if foreign else str(error).strip().splitlines()[0]
        raise ValueError(f"tflite expected a model of TFLite's builtin operators, received {reason}.") from error
    require_builtin(flatbuffer)
    return flatbuffer


def _in_float32(model: keras.Model) -> keras.Model:
    """The model itself, or a copy that computes in float32 where it does not: TFLite has no half-precision products."""
    if all(layer.compute_dtype == "float32" for layer in model.layers):
        return model

    def in_float32(layer):
        return type(layer).from_config({**layer.get_config(), "dtype": "float32"})

    copy = keras.models.clone_model(model, clone_function=in_float32)
    copy.set_weights(model.get_weights())
    return copy


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
