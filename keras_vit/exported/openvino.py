"""OpenVINO's files -> a function that runs them.

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

SHARED = 4  # images from which on two streams share them
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def overflows(cpuinfo: str) -> bool:
    """Whether a processor, in Linux's words, adds two products of 8 bits in 16, having AVX2 but not VNNI.

    The sum is cut off there: two small ViTs' errors were more than three times as large by kernels of 8 bits as of 7.
    """
    return "avx2" in cpuinfo and "vnni" not in cpuinfo


def _kernels_of_8_bits(network) -> bool:
    """Whether NNCF rounded a network and, as it notes in the file, left a kernel the bit that sums may need."""
    noted = ["nncf", "quantization", "advanced_parameters"]
    return network.has_rt_info(noted) and "'overflow_fix': 'enable'" not in str(network.get_rt_info(noted).value)


def processor() -> str:
    """What Linux says of the processor; an empty text elsewhere."""
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
    if overflows(processor()) and _kernels_of_8_bits(network):
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
