"""The same model computing in another type."""

import contextlib

import keras
import tensorflow as tf

KEPT = ("head", "predictions", "rescaling")  # half precision rounds logits visibly, and pixels before they are scaled


def in_dtype(model: keras.Model, dtype: str) -> keras.Model:
    """A copy of a model that stores its weights and computes in `dtype`; the model itself where it already does.

    Args:
        model: a model of this package.
        dtype: `float32` or `bfloat16`; under `bfloat16` the input, the classifier and the scaling of pixels stay
            float32.
    """
    if dtype == "float32" and all(layer.dtype_policy.name == "float32" for layer in model.layers):
        return model

    def copied(layer):
        exact = isinstance(layer, keras.layers.InputLayer) or layer.name in KEPT
        return type(layer).from_config({**layer.get_config(), "dtype": "float32" if exact else dtype})

    copy = keras.models.clone_model(model, clone_function=copied)
    copy.set_weights(model.get_weights())
    return copy


@contextlib.contextmanager
def whole_float32():
    """While entered, TensorFlow multiplies float32 in float32 on a GPU, too, where it else takes TensorFloat-32, whose
    ten bits are less than exports are held to."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
