"""A Keras model -> TensorFlow Lite, builtin operators only."""

import re

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.calibrated import quantised
from keras_vit.export.flatbuffer import operators as operators
from keras_vit.export.flatbuffer import read_metadata as read_metadata
from keras_vit.export.flatbuffer import require_builtin, with_metadata
from keras_vit.export.flatbuffer import stored_types as stored_types
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule

CALIBRATED = {"int8": "int8", "int16x8": "int16"}  # and what they compute in
# Of the stored weights; int8-dynamic rounds what is multiplied with them to int8 as it comes, image by image.
PRECISIONS = ("float32", "float16", "int8-dynamic", *CALIBRATED)


def convert(
    model: keras.Model, precision: str = "float32", batch: int | None = 1, calibration: np.ndarray | None = None
) -> bytes:
    """Convert a model to a TFLite file with the signature `serving_default`; its inputs and outputs are float32.

    The file says what it is: a metadata entry `keras_vit.json` holds labels and normalisation, and `labels.txt` is
    appended as an archive member, which is how TFLite's tools attach files (`unzip -p model.tflite labels.txt`).

    Args:
        model: a model of this package with a fixed image size.
        precision: one of `PRECISIONS`.
        batch: images a call; None for any number.
        calibration: (N, H, W, C) images in the model's range, for the precisions of `CALIBRATED`.

    Raises:
        ValueError: the image size is free, the precision is unknown or without its images, or the model needs
            operators outside TFLite's own.
    """
    if precision in CALIBRATED and calibration is None:
        raise ValueError(f"calibration expected real images for the precision {precision}, received None.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision expected one of {PRECISIONS}, received {precision!r}.")
    module = ServingModule(in_dtype(model, "float32"), measured=precision in CALIBRATED)
    shape = module.interface.input_shape
    if None in shape:
        raise ValueError(f"tflite expected a model with a fixed image size, received input shape {shape}.")
    function = module.function(module.answer, batch).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if precision in ("float16", "int8-dynamic"):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        if precision in CALIBRATED:
            flatbuffer = quantised(converter, calibration, CALIBRATED[precision], batch)
        else:
            flatbuffer = converter.convert()
    except Exception as error:  # the converter's errors share no base class
        foreign = re.search(r"(?:Select|Flex|Custom) ops: (.+)", str(error))
        reason = f"one with {foreign[1].strip()}" if foreign else str(error).strip().splitlines()[0]
        raise ValueError(f"tflite expected a model of TFLite's builtin operators, received {reason}.") from error
    require_builtin(flatbuffer)
    return with_metadata(flatbuffer, module.interface, precision)
