"""A Keras model -> OpenVINO's intermediate representation, `model.xml` and `model.bin`, in float32 or calibrated int8.

B batch, H W C image.
"""

import contextlib
import functools
import logging
import os
import re
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.layers.base import taking_forms
from keras_vit.layers.layernorm import usual_norms
from keras_vit.layers.parted import parted_products

_IN_A_TEST = "NNCF_CI"
_OUTSIDE = re.compile(r"/(position_embedding|embedding|pre_logits|head)(_\d+)?/")  # layers that stay float32
_PRODUCTS = ("MatMul", "Convolution")
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
    nncf = None if calibration is None else _nncf()
    model = in_dtype(model, "float32")
    module = ServingModule(model, measured=calibration is not None)
    form = contextlib.nullcontext() if nncf else _fastest_forms(model)
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder, form:
        tf.saved_model.save(module, folder, signatures={"serving_default": module.function(module.answer)})
        network = openvino.Core().read_model(folder)
        if nncf:
            network = _quantised(nncf, network, calibration)
        network.set_rt_info(metadata(module.interface, "int8" if nncf else "float32"), [KEY])
        openvino.save_model(network, str(file), compress_to_fp16=False)


@contextlib.contextmanager
def _fastest_forms(model):
    """While entered the model computes in the forms that are the fastest here; scales of int8 were chosen without."""
    norms = [(layer, _normed) for layer in usual_norms(model)]
    with parted_products(model, scores=_scores), taking_forms(norms):
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


def _nncf():
    """OpenVINO's package for integers.

    It reports each use over the net unless it believes itself in a test while it is imported; who imported it before
    has chosen for himself.
    """
    before = os.environ.get(_IN_A_TEST)
    os.environ[_IN_A_TEST] = "1"
    try:
        return needed("nncf", "nncf", "openvino-int8")
    finally:
        del os.environ[_IN_A_TEST]
        if before is not None:
            os.environ[_IN_A_TEST] = before


def _quantised(nncf, network, images: np.ndarray):
    """Products and convolutions on integers of 8 bits; softmax, norms, GELU and what the blocks add up stay float32.

    So do the products in front of the blocks and behind them, 1 % of a B/16's: of a small ViT trained on CIFAR-10, the
    classifier in integers makes nine tenths of the error of all.

    The scales reach to the largest number of all images, and half of the spread of a product's channels is moved into
    its kernel (SmoothQuant, arXiv 2211.10438). With NNCF's defaults, the mean of the images' largest numbers and nearly
    all of the spread, that ViT's error is a quarter larger. Where sums of products would overflow, kernels have 7 bits.
    """
    fix = nncf.quantization.advanced_parameters.OverflowFix
    advanced = nncf.AdvancedQuantizationParameters(
        overflow_fix=fix.ENABLE if overflows(_processor()) else fix.FIRST_LAYER,
        activations_range_estimator_params=nncf.quantization.range_estimator.RangeEstimatorParametersSet.MINMAX,
        smooth_quant_alphas=nncf.quantization.advanced_parameters.AdvancedSmoothQuantParameters(matmul=0.5),
    )
    data = nncf.Dataset(images, lambda image: image[None].astype("float32"))
    first, *others = (op.get_friendly_name() for op in network.get_ordered_ops() if op.get_type_name() in _PRODUCTS)
    float32 = nncf.IgnoredScope(names=[first, *filter(_OUTSIDE.search, others)])
    kind, logger = nncf.ModelType.TRANSFORMER, logging.getLogger("nncf")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # its progress bars
            return nncf.quantize(
                network,
                data,
                subset_size=len(images),
                model_type=kind,
                ignored_scope=float32,
                advanced_parameters=advanced,
            )
    finally:
        logger.setLevel(before)


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
