"""Quantising a TFLite file with scales that were measured on real images."""

import warnings

import numpy as np
import tensorflow as tf

from keras_vit.export.flatbuffer import operators

PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")


def quantised(converter, inputs: np.ndarray, activations: str) -> bytes:
    """Run a converter with weights in int8 and activations in integers.

    int8 is for the products with weights alone, which are nearly all of the time and of the bytes: their kernels for
    integers are fast. The residual stream, LayerNorm, softmax, GELU and the products of attention stay float32, for
    eight bits would round what all blocks add up. int16x8 is integers throughout, for hardware that has nothing else.

    Args:
        converter: a `tf.lite.TFLiteConverter` of one image or any number a call.
        inputs: (N, H, W, C) to measure on, in the model's range.
        activations: `int8` or `int16`.
    """
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ({"images": image[None]} for image in inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
        if activations == "int16":
            integers = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.target_spec.supported_ops = [integers, tf.lite.OpsSet.TFLITE_BUILTINS]
            return converter.convert()
        # The two steps of `convert`, which cannot be told what to leave in float32; TensorFlow's own
        # QuantizationDebugger, which can, takes them in the same way and makes a second model beside.
        from tensorflow.lite.python.convert import mlir_quantize

        converter._experimental_calibrate_only = True
        measured = converter.convert()
        kept = [name.lower() for name in operators(measured) if name not in PRODUCTS]
        return mlir_quantize(measured, denylisted_ops=kept)
