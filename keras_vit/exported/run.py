"""Load the signatures of one format from a version folder."""

from collections.abc import Callable
from pathlib import Path

from keras_vit.exported import onnx, openvino, tflite
from keras_vit.exported.folders import FILES


def signatures_of(folder: str | Path) -> dict[str, Callable]:
    """Return the signatures of a SavedModel by name: functions of named tensors that return a dict of tensors."""
    import tensorflow as tf  # not needed by the other formats

    return dict(tf.saved_model.load(str(folder)).signatures)


def load_signatures(name: str, folder: Path) -> dict[str, Callable]:
    """Load the files of one format.

    Args:
        name: name of the format, a key of `FILES`.
        folder: the version folder.

    Returns:
        The functions of the signatures by name.

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
