"""Write and run OpenVINO's files, `model.xml` and `model.bin`, in float32 or calibrated int8.

B batch, H W C image, N images.
"""

import contextlib
import errno
import functools
import os
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.export.integers import nncf, quantise
from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.write_options import WriteOptions

if TYPE_CHECKING:
    import keras

STREAM_BATCH = 4  # smallest batch that is split over two streams
COMPUTE_PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def write(model: "keras.Model", file: Path, options: WriteOptions) -> None:
    """Write a model for OpenVINO in the precision of the options, `float32` or `int8`."""
    write_openvino(model, file, options.calibration if options.precision == "int8" else None)


def load(file: Path) -> dict[str, Callable]:
    """Return the functions of the signatures by name."""
    return {"serving_default": runner(file)}


def runner(file: str | Path, precision: str = "float32") -> Callable:
    """Return a function that runs OpenVINO files on the CPU: images=(B, H, W, C) -> outputs by name.

    Batches of four and more are split over two streams with half of the cores each, which need fewer synchronisations.
    All cores compute a smaller batch together. The first call of each kind compiles. A lock serialises calls of
    several threads.

    Args:
        file: the `.xml` file.
        precision: compute precision, a key of `COMPUTE_PRECISIONS`. OpenVINO's default is bfloat16 on some processors.

    Raises:
        ValueError: OpenVINO is not installed.

    Warns:
        UserWarning: the file was quantised for processors with VNNI, which this processor lacks; see `overflows`.
    """
    openvino = needed("openvino", "openvino", "openvino")
    core = openvino.Core()
    network = core.read_model(str(file))
    if overflows(processor()) and _has_8_bit_weights(network):
        warnings.warn(
            f"{file} expected a processor with VNNI, for which it was calibrated, received one with AVX2 only, whose "
            "int8 sums saturate: expect larger errors, or export openvino-int8 again on a machine like this one.",
            stacklevel=2,
        )
    lock = threading.Lock()

    @functools.cache
    def requests(streams: int) -> list:
        options = {"INFERENCE_PRECISION_HINT": COMPUTE_PRECISIONS[precision], "NUM_STREAMS": streams}
        compiled = core.compile_model(network, "CPU", options)
        return [compiled.create_infer_request() for _ in range(streams)]

    def infer(*, images) -> dict[str, np.ndarray]:
        images = np.asarray(images, "float32")
        with lock:
            used = requests(2 if len(images) >= STREAM_BATCH and os.cpu_count() > 1 else 1)
            with contextlib.ExitStack() as started:  # waits for all requests, also if one fails
                for request, batch in zip(used, np.array_split(images, len(used)), strict=True):
                    request.start_async([batch], share_inputs=True)
                    started.callback(request.wait)
            names = [output.any_name for output in network.outputs]
            return {name: np.concatenate([request.get_tensor(name).data for request in used]) for name in names}

    return infer


def overflows(cpuinfo: str) -> bool:
    """Return whether int8 dot products saturate on a processor, because it has AVX2 but not VNNI.

    Without VNNI two 8-bit products are added in 16 bits. Weights of 7 bits avoid the saturation.

    Args:
        cpuinfo: text of Linux's `/proc/cpuinfo`.
    """
    return "avx2" in cpuinfo and "vnni" not in cpuinfo


def processor() -> str:
    """Return Linux's `/proc/cpuinfo`; an empty text on other systems."""
    file = Path("/proc/cpuinfo")
    return file.read_text() if file.exists() else ""


def _has_8_bit_weights(network) -> bool:
    """Return whether NNCF quantised a network with weights of 8 bits, as the file's metadata states."""
    key = ["nncf", "quantization", "advanced_parameters"]
    return network.has_rt_info(key) and "'overflow_fix': 'enable'" not in str(network.get_rt_info(key).value)


def write_openvino(model: "keras.Model", file: str | Path, calibration: np.ndarray | None = None) -> None:
    """Write a model for OpenVINO, for any batch size. The weights are in a second file with the suffix `.bin`.

    OpenVINO reads a temporary SavedModel. `openvino.convert_model` is not used, because it reports each use over the
    network by default.

    Args:
        model: a model of this package.
        file: path of the `.xml` file.
        calibration: (N, H, W, C) images in the model's input range, to measure the ranges of int8 on; float32 if None.

    Raises:
        ValueError: OpenVINO is not installed, or NNCF, which quantises to int8.
    """
    openvino = needed("openvino", "openvino", "openvino" if calibration is None else "openvino-int8")
    if calibration is not None:
        nncf()  # raises the error before the work begins
    import tensorflow as tf

    from keras_vit.export.openvino_graph import openvino_function
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.serving_module import ServingModule

    model = in_dtype(model, "float32")
    module = ServingModule(model, calibrated=calibration is not None)
    function = openvino_function(model, module)
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        tf.saved_model.save(module, folder, signatures={"serving_default": function})
        network = openvino.Core().read_model(folder)
        if calibration is not None:
            network = quantise(network, calibration, seven_bits=overflows(processor()))
        network.set_rt_info(metadata(module.interface, "float32" if calibration is None else "int8"), [KEY])
        try:
            openvino.save_model(network, str(file), compress_to_fp16=False)
        except RuntimeError as error:  # C++ streams do not state the reason
            raise OSError(errno.EIO, f"OpenVINO could not write it: {error}", str(file)) from error
