"""Change the dtype of a model, and the precision of float32 matmuls."""

import contextlib

import keras
import tensorflow as tf

FLOAT32_LAYERS = ("head", "predictions", "rescaling")  # half precision would round logits and unscaled pixels visibly


def in_dtype(model: keras.Model, dtype: str) -> keras.Model:
    """Return a copy of a model in another dtype; the model itself if it is already in float32.

    Args:
        model: a model of this package.
        dtype: dtype of the weights and the computation, `float32` or `bfloat16`. The input, the classifier and the
            scaling of pixels stay float32.
    """
    if dtype == "float32" and all(layer.dtype_policy.name == "float32" for layer in model.layers):
        return model

    def copied(layer):
        exact = isinstance(layer, keras.layers.InputLayer) or layer.name in FLOAT32_LAYERS
        return type(layer).from_config({**layer.get_config(), "dtype": "float32" if exact else dtype})

    copy = keras.models.clone_model(model, clone_function=copied)
    copy.set_weights(model.get_weights())
    return copy


@contextlib.contextmanager
def without_tensor_float_32():
    """Turn TensorFloat-32 off inside the `with`. Its 10-bit mantissa is less exact than the tolerance of exports."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
