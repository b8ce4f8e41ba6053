"""A Keras model -> OpenVINO's intermediate representation, `model.xml` and `model.bin`, in float32 or calibrated int8.

B batch, H W C image.
"""

import contextlib
import functools
import os
import tempfile
import threading
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.integers import nncf, quantised
from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.layers.base import taking_forms
from keras_vit.layers.layernorm import usual_norms
from keras_vit.layers.parted import parted_products

SHARED = 4  # images from which on two streams share them
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


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
    answer = module.function(_fastest_forms(model)(module.answer))
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        tf.saved_model.save(module, folder, signatures={"serving_default": answer})
        network = openvino.Core().read_model(folder)
        if calibration is not None:
            network = quantised(network, calibration, narrow=overflows(_processor()))
        precision = "float32" if calibration is None else "int8"
        network.set_rt_info(metadata(module.interface, precision), [KEY])
        openvino.save_model(network, str(file), compress_to_fp16=False)


@contextlib.contextmanager
def _fastest_forms(model):
    """A decorator: the model computes in the forms that are the fastest here."""
    norms, place = [(layer, _normed) for layer in usual_norms(model)], tf.compat.v1.get_default_graph
    with parted_products(model, scores=_scores, place=place), taking_forms(norms, place):
        yield


def _normed(x, gamma, beta, epsilon):
    """`layer_norm` as OpenVINO finds its own operation in it: a root divides, and axes come as a list."""
    x = tf.cast(x, tf.float32)
    deviation = x - tf.reduce_mean(x, [-1], keepdims=True)
    variance = tf.reduce_mean(tf.square(deviation), [-1], keepdims=True)
    return deviation / tf.sqrt(variance + epsilon) * gamma + beta


def _scores(query, key):
    """`keras_vit.layers.parted.products_with_keys`: the product itself transposes, not a pass before it."""
    return tf.matmul(query, tf.transpose(key, (0, 2, 1, 3)), transpose_b=True)


def overflows(cpuinfo: str) -> bool:
    """Whether a processor, in Linux's words, adds two products of 8 bits in 16, having AVX2 but not VNNI.

    The sum is cut off there: two small ViTs' errors were more than three times as large by kernels of 8 bits as of 7.
    """
    return "avx2" in cpuinfo and "vnni" not in cpuinfo


def _kernels_of_8_bits(network) -> bool:
    """Whether NNCF rounded a network and, as it notes in the file, left a kernel the bit that sums may need."""
    noted = ["nncf", "quantization", "advanced_parameters"]
    return network.has_rt_info(noted) and "'overflow_fix': 'enable'" not in str(network.get_rt_info(noted).value)


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    return file.read_text() if file.exists() else ""


def runner(file: str | Path, precision: str = "float32"):
    """A function (images=(B, H, W, C)) -> outputs by name that runs OpenVINO's files on the CPU; threads take turns.

    Four images or more are shared out over two streams, each on half of the cores, which then need not wait for one
    another after each product; fewer are computed by all cores together. Either is made ready by its first call.

    Args:
        file: the `.xml` file.
        precision: one of `PRECISIONS` to compute in. OpenVINO left to itself takes bfloat16 on processors that are
            faster in it.

    Raises:
        ValueError: OpenVINO is not installed.

    Warns:
        UserWarning: on a processor whose sums overflow (`overflows`), of a file in int8 that was made for others.
    """
    openvino = needed("openvino", "openvino", "openvino")
    core = openvino.Core()
    network = core.read_model(str(file))
    if overflows(_processor()) and _kernels_of_8_bits(network):
        warnings.warn(
            f"{file} was calibrated for a processor with VNNI, and this one, which has AVX2 alone, cuts off its sums: "
            "expect larger errors, or export openvino-int8 anew on a machine like this one.",
            stacklevel=2,
        )
    one_call = threading.Lock()

    @functools.cache
    def requests(streams: int) -> list:
        options = {"INFERENCE_PRECISION_HINT": PRECISIONS[precision], "NUM_STREAMS": streams}
        compiled = core.compile_model(network, "CPU", options)
        return [compiled.create_infer_request() for _ in range(streams)]

    def infer(*, images) -> dict[str, np.ndarray]:
        images = np.asarray(images, "float32")
        with one_call:
            used = requests(2 if len(images) >= SHARED and os.cpu_count() > 1 else 1)
            with contextlib.ExitStack() as started:  # waits for all, whichever fails
                for request, part in zip(used, np.array_split(images, len(used)), strict=True):
                    request.start_async([part], share_inputs=True)
                    started.callback(request.wait)
            names = [output.any_name for output in network.outputs]
            return {name: np.concatenate([request.get_tensor(name).data for request in used]) for name in names}

    return infer
