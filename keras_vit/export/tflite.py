"""Write and run TensorFlow Lite files with builtin operators only.

B batch, H W C image, N images.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.export.flatbuffer import operators as operators
from keras_vit.export.flatbuffer import read_metadata as read_metadata
from keras_vit.export.flatbuffer import require_builtin, with_metadata
from keras_vit.export.flatbuffer import stored_types as stored_types
from keras_vit.export.optional import needed
from keras_vit.export.write_options import WriteOptions

if TYPE_CHECKING:
    import keras

CALIBRATED = {"int8": "int8", "int16x8": "int16"}  # precision -> dtype of the activations
# Of the stored weights. int8-dynamic quantises the inputs of a matmul at run time, per image.
PRECISIONS = ("float32", "float16", "int8-dynamic", *CALIBRATED)


def write(model: "keras.Model", file: Path, options: WriteOptions) -> None:
    """Write a model as a TFLite file of the batch size and the precision of the options."""
    file.write_bytes(convert(model, options.precision, batch=options.batch, calibration=options.calibration))


def load(file: Path) -> dict[str, Callable]:
    """Return the functions of the signatures by name."""
    return {"serving_default": runner(file.read_bytes())}


def runner(flatbuffer: bytes) -> Callable:
    """Return a function that runs a TFLite file: images=(B, H, W, C) -> outputs by name.

    The images are computed in batches of the file's batch size.

    Raises:
        ValueError: the interpreter is not installed.
    """
    litert = needed("ai-edge-litert", "ai_edge_litert.interpreter", "tflite")
    interpreter = litert.Interpreter(model_content=flatbuffer, num_threads=os.cpu_count())
    interpreter.allocate_tensors()  # raises an error for unsupported operators
    run = interpreter.get_signature_runner("serving_default")
    size = run.get_input_details()["images"]["shape_signature"][0]  # -1 if it is free

    def infer(*, images: np.ndarray) -> dict[str, np.ndarray]:
        outputs = [run(images=batch) for batch in equal_batches(images, len(images) if size == -1 else size)]
        return {name: np.concatenate([output[name] for output in outputs])[: len(images)] for name in outputs[0]}

    return infer


def equal_batches(images: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield images (N, H, W, C) in float32 batches of equal size. The last batch repeats its last image."""
    for start in range(0, len(images), size):
        batch = images[start : start + size].astype("float32")
        yield np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), axis=0)])


def convert(
    model: "keras.Model", precision: str = "float32", batch: int | None = 1, calibration: np.ndarray | None = None
) -> bytes:
    """Convert a model to a TFLite file with the signature `serving_default`. Its inputs and outputs are float32.

    The metadata entry `keras_vit.json` holds labels and normalisation. `labels.txt` is appended as an archive member,
    as TFLite's tools attach files (`unzip -p model.tflite labels.txt`).

    Args:
        model: a model of this package with a fixed image size.
        precision: one of `PRECISIONS`.
        batch: batch size; None if it is free.
        calibration: (N, H, W, C) images in the model's input range, for the precisions in `CALIBRATED`.

    Raises:
        ValueError: the image size is free, the precision is unknown, its calibration images are missing, or the model
            needs operators that TFLite does not have.
    """
    import tensorflow as tf

    from keras_vit.export.calibrated import convert_calibrated
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.serving_module import ServingModule

    if precision in CALIBRATED and calibration is None:
        raise ValueError(f"calibration expected real images for the precision {precision}, received None.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision expected one of {PRECISIONS}, received {precision!r}.")
    module = ServingModule(in_dtype(model, "float32"), calibrated=precision in CALIBRATED)
    shape = module.interface.input_shape
    if None in shape:
        raise ValueError(f"tflite expected a model with a fixed image size, received input shape {shape}.")
    function = module.function(module.infer, batch).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if precision in ("float16", "int8-dynamic"):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        if precision in CALIBRATED:
            flatbuffer = convert_calibrated(converter, calibration, CALIBRATED[precision], batch)
        else:
            flatbuffer = converter.convert()
    except Exception as error:  # the converter's errors have no common base class
        foreign = re.search(r"(?:Select|Flex|Custom) ops: (.+)", str(error))
        reason = f"one with {foreign[1].strip()}" if foreign else str(error).strip().splitlines()[0]
        raise ValueError(f"tflite expected a model of TFLite's builtin operators, received {reason}.") from error
    require_builtin(flatbuffer)
    return with_metadata(flatbuffer, module.interface, precision)
