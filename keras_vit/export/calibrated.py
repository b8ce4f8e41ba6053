"""Quantising a TFLite file with scales that were measured on real images."""

import warnings

import numpy as np
import tensorflow as tf

from keras_vit.export.flatbuffer import operators
from keras_vit.exported.tflite import pieces
from keras_vit.private import calibrated_only, quantize_calibrated

PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")


def quantised(converter, inputs: np.ndarray, activations: str, batch: int | None = 1) -> bytes:
    """Run a converter with weights in int8 and activations in integers.

    int8 is for the products with weights alone, which are nearly all of the time and of the bytes: their kernels for
    integers are fast. The residual stream, LayerNorm, softmax, GELU and the products of attention stay float32, for
    eight bits would round what all blocks add up. int16x8 is integers throughout, for hardware that has nothing else.

    Args:
        converter: a `tf.lite.TFLiteConverter`.
        inputs: (N, H, W, C) to measure on, in the model's range.
        activations: `int8` or `int16`.
        batch: images a call of the converter's function; None for any number.
    """
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ({"images": images} for images in pieces(inputs, batch or 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
        if activations == "int16":
            integers = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.target_spec.supported_ops = [integers, tf.lite.OpsSet.TFLITE_BUILTINS]
            return converter.convert()
        # The two steps of `convert`, which cannot be told what to leave in float32; TensorFlow's own
        # QuantizationDebugger, which can, takes them in the same way and makes a second model beside.
        measured = calibrated_only(converter)
        kept = [name.lower() for name in operators(measured) if name not in PRODUCTS]
        return quantize_calibrated(measured, kept)
