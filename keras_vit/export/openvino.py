"""A Keras model -> OpenVINO's intermediate representation, `model.xml` and `model.bin`.

B batch, H W C image.
"""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def write_openvino(model: keras.Model, file: str | Path) -> None:
    """Write a model for OpenVINO in float32, for any batch; the weights lie beside `file` under the suffix `.bin`.

    OpenVINO reads the SavedModel itself: `openvino.convert_model`, which `keras.Model.export` calls, reports each use
    to its makers over the net unless told not to.

    Args:
        model: a model of this package.
        file: to write, `*.xml`.

    Raises:
        ValueError: OpenVINO is not installed.
    """
    openvino = needed("openvino", "openvino", "openvino")
    module = ServingModule(in_dtype(model, "float32"))
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        tf.saved_model.save(module, folder, signatures={"serving_default": module.function(module.answer)})
        network = openvino.Core().read_model(folder)
        network.set_rt_info(metadata(module.interface, "float32"), [KEY])
        openvino.save_model(network, str(file), compress_to_fp16=False)


def runner(file: str | Path, precision: str = "float32"):
    """A function (images=(B, H, W, C)) -> outputs by name that runs OpenVINO's files on the CPU.

    Args:
        file: the `.xml` file.
        precision: one of `PRECISIONS` to compute in. OpenVINO left to itself takes bfloat16 on processors that are
            faster in it.

    Raises:
        ValueError: OpenVINO is not installed.
    """
    openvino = needed("openvino", "openvino", "openvino")
    core = openvino.Core()
    hint = {"INFERENCE_PRECISION_HINT": PRECISIONS[precision]}
    network = core.compile_model(core.read_model(str(file)), "CPU", hint)

    def infer(*, images) -> dict[str, np.ndarray]:
        answer = network(np.asarray(images, "float32"))
        return {output.any_name: value for output, value in answer.items()}

    return infer
