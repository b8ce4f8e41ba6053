"""A format -> the functions by signature that its files in a version's folder hold."""

from collections.abc import Callable
from pathlib import Path

from keras_vit.exported import onnx, openvino, tflite
from keras_vit.exported.folders import FILES


def signatures_of(folder: str | Path) -> dict[str, Callable]:
    """The signatures of the SavedModel in `folder` by name: functions of named tensors to a dict of tensors."""
    import tensorflow as tf  # the other formats need none

    return dict(tf.saved_model.load(str(folder)).signatures)


def load_signatures(name: str, folder: Path) -> dict[str, Callable]:
    """Load one format of a version.

    Args:
        name: of the format, one of `FILES`.
        folder: the version's.

    Raises:
        ValueError: the package that runs the format is not installed.
    """
    if name == "saved_model":
        return signatures_of(folder)
    runner = _RUNNERS[name.partition("-")[0]]
    return {"serving_default": runner(folder / FILES[name])}


_RUNNERS = {
    "tflite": lambda file: tflite.runner(file.read_bytes()),
    "onnx": onnx.runner,
    "openvino": openvino.runner,
}
