"""A Keras model -> OpenVINO's intermediate representation, `model.xml` and `model.bin`, in float32 or calibrated int8.

B batch, H W C image.
"""

import errno
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.integers import nncf, quantised
from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.exported.openvino import overflows, processor
from keras_vit.exported.optional import needed
from keras_vit.kernels.dispatch import plain_layer_norms
from keras_vit.kernels.split_matmuls import split_overrides
from keras_vit.layers.override import Override, overriding


def write_openvino(model: keras.Model, file: str | Path, calibration: np.ndarray | None = None) -> None:
    """Write a model for OpenVINO, for any batch; the weights lie beside `file` under the suffix `.bin`.

    OpenVINO reads the SavedModel itself: `openvino.convert_model`, which `keras.Model.export` calls, reports each use
    to its makers over the net unless told not to.

    Args:
        model: a model of this package.
        file: to write, `*.xml`.
        calibration: (N, H, W, C) images in the model's range to measure the scales of int8 on; float32 where None.

    Raises:
        ValueError: OpenVINO is not installed, or NNCF, which rounds to int8.
    """
    openvino = needed("openvino", "openvino", "openvino" if calibration is None else "openvino-int8")
    if calibration is not None:
        nncf()  # says here what is missing
    model = in_dtype(model, "float32")
    module = ServingModule(model, measured=calibration is not None)
    answer = module.function(overriding(_overrides(model), tf.compat.v1.get_default_graph)(module.answer))
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        tf.saved_model.save(module, folder, signatures={"serving_default": answer})
        network = openvino.Core().read_model(folder)
        if calibration is not None:
            network = quantised(network, calibration, narrow=overflows(processor()))
        precision = "float32" if calibration is None else "int8"
        network.set_rt_info(metadata(module.interface, precision), [KEY])
        try:
            openvino.save_model(network, str(file), compress_to_fp16=False)
        except RuntimeError as error:  # of C++'s streams, which do not say why
            raise OSError(errno.EIO, f"OpenVINO could not write it: {error}", str(file)) from error


def _overrides(model) -> list[Override]:
    """Return overrides of a model in which OpenVINO finds its own operations."""
    norms = [Override(layer, "norm", _normed) for layer in plain_layer_norms(model)]
    return norms + split_overrides(model, scores=_scores)


def _normed(x, gamma, beta, epsilon):
    """`layer_norm` as OpenVINO finds its own operation in it: a root divides, and axes come as a list."""
    x = tf.cast(x, tf.float32)
    deviation = x - tf.reduce_mean(x, [-1], keepdims=True)
    variance = tf.reduce_mean(tf.square(deviation), [-1], keepdims=True)
    return deviation / tf.sqrt(variance + epsilon) * gamma + beta


def _scores(query, key):
    """`split_matmuls.query_key_scores`, whose matmul transposes the keys itself."""
    return tf.matmul(query, tf.transpose(key, (0, 2, 1, 3)), transpose_b=True)
