"""Run OpenVINO files.

B batch, H W C image.
"""

import contextlib
import functools
import os
import threading
import warnings
from pathlib import Path

import numpy as np

from keras_vit.exported.optional import needed

SHARED = 4  # batch size from which on two streams share a batch
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def overflows(cpuinfo: str) -> bool:
    """Return whether int8 dot products saturate on a processor, because it has AVX2 but not VNNI.

    Without VNNI two 8-bit products are added in 16 bits. Weights of 7 bits avoid the saturation.

    Args:
        cpuinfo: text of Linux's `/proc/cpuinfo`.
    """
    return "avx2" in cpuinfo and "vnni" not in cpuinfo


def _kernels_of_8_bits(network) -> bool:
    """Return whether NNCF quantised a network with weights of 8 bits, as the file's metadata states."""
    key = ["nncf", "quantization", "advanced_parameters"]
    return network.has_rt_info(key) and "'overflow_fix': 'enable'" not in str(network.get_rt_info(key).value)


def processor() -> str:
    """Return Linux's `/proc/cpuinfo`; an empty text on other systems."""
    file = Path("/proc/cpuinfo")
    return file.read_text() if file.exists() else ""


def runner(file: str | Path, precision: str = "float32"):
    """Return a function that runs OpenVINO files on the CPU: images=(B, H, W, C) -> outputs by name.

    Batches of four and more are split over two streams with half of the cores each, which need fewer synchronisations.
    All cores compute a smaller batch together. The first call of each kind compiles. A lock serialises calls of
    several threads.

    Args:
        file: the `.xml` file.
        precision: compute precision, a key of `PRECISIONS`. OpenVINO's default is bfloat16 on some processors.

    Raises:
        ValueError: OpenVINO is not installed.

    Warns:
        UserWarning: the file was quantised for processors with VNNI, which this processor lacks; see `overflows`.
    """
    openvino = needed("openvino", "openvino", "openvino")
    core = openvino.Core()
    network = core.read_model(str(file))
    if overflows(processor()) and _kernels_of_8_bits(network):
        warnings.warn(
            f"{file} expected a processor with VNNI, for which it was calibrated, received one with AVX2 only, whose "
            "int8 sums saturate: expect larger errors, or export openvino-int8 again on a machine like this one.",
            stacklevel=2,
        )
    lock = threading.Lock()

    @functools.cache
    def requests(streams: int) -> list:
        options = {"INFERENCE_PRECISION_HINT": PRECISIONS[precision], "NUM_STREAMS": streams}
        compiled = core.compile_model(network, "CPU", options)
        return [compiled.create_infer_request() for _ in range(streams)]

    def infer(*, images) -> dict[str, np.ndarray]:
        images = np.asarray(images, "float32")
        with lock:
            used = requests(2 if len(images) >= SHARED and os.cpu_count() > 1 else 1)
            with contextlib.ExitStack() as started:  # waits for all requests, also if one fails
                for request, part in zip(used, np.array_split(images, len(used)), strict=True):
                    request.start_async([part], share_inputs=True)
                    started.callback(request.wait)
            names = [output.any_name for output in network.outputs]
            return {name: np.concatenate([request.get_tensor(name).data for request in used]) for name in names}

    return infer
