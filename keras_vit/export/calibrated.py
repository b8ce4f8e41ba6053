"""Quantise TFLite files with ranges that were measured on real images."""

import warnings

import numpy as np
import tensorflow as tf

from keras_vit.export.flatbuffer import operators
from keras_vit.export.tflite import equal_batches
from keras_vit.private import calibrated_only, quantize_calibrated

QUANTISED = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")  # matmuls with weights


def convert_calibrated(converter, inputs: np.ndarray, activations: str, batch: int | None = 1) -> bytes:
    """Run a converter with int8 weights and integer activations.

    With int8 activations only the matmuls with weights are quantised: they take most of the time and have fast integer
    kernels. The residual stream, LayerNorm, softmax, GELU and attention's own matmuls stay float32, because int8 would
    round the sum of all blocks. With int16 activations all operations are quantised, for hardware that computes in
    integers only.

    Args:
        converter: a `tf.lite.TFLiteConverter`.
        inputs: (N, H, W, C) calibration images in the model's input range.
        activations: `int8` or `int16`.
        batch: batch size of the converter's function; None if it is free.
    """
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ({"images": images} for images in equal_batches(inputs, batch or 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
        if activations == "int16":
            integers = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.target_spec.supported_ops = [integers, tf.lite.OpsSet.TFLITE_BUILTINS]
            return converter.convert()
        # `convert` does these two steps, but has no option for operators that stay float32. TensorFlow's
        # QuantizationDebugger has one, does the same steps and also builds a second model.
        calibrated = calibrated_only(converter)
        float_operators = [name.lower() for name in operators(calibrated) if name not in QUANTISED]
        return quantize_calibrated(calibrated, float_operators)
