"""TensorFlow's switches for a process that does nothing but serve."""

import os
from pathlib import Path

import tensorflow as tf

from keras_vit.serve.repository import version_numbers

SWITCH = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"


def release_memory() -> None:
    """Have TensorFlow take memory from the system's allocator, which returns that of a large image afterwards.

    oneDNN's own, the default, keeps whatever it once took. TensorFlow reads the switch when it first takes memory. What
    the environment says of it already stays.
    """
    os.environ.setdefault(ALLOCATOR, "1")


def hold_weights(folders) -> None:
    """Have oneDNN bring each weight of this process into an order of its own once, where all models gain by it.

    Those are models stored in bfloat16; in float32 products are faster as weights lie (benchmarks/notes). It is for
    a process that does nothing but serve: a weight that changes later keeps its first numbers in products. TensorFlow
    reads the switch with its first product. What the environment says of it already stays.

    Args:
        folders: of the models, `saved_models/NAME` each; of a folder without an export it is for others to tell.
    """
    if SWITCH not in os.environ and all(_in_bfloat16(Path(folder)) for folder in folders):
        os.environ[SWITCH] = "1"


def _in_bfloat16(folder: Path) -> bool:
    """Whether most of the weights of a model's newest SavedModel are."""
    versions = [folder / str(number) for number in version_numbers(folder)]
    saved = [version for version in versions if (version / "saved_model.pb").is_file()]
    if not saved:
        return False
    try:
        weights = tf.train.load_checkpoint(str(saved[-1] / "variables" / "variables"))
    except (tf.errors.OpError, ValueError):  # said when the version is loaded
        return False
    shapes, half, count = weights.get_variable_to_shape_map(), 0, 0
    for name, dtype in weights.get_variable_to_dtype_map().items():
        size = tf.TensorShape(shapes[name]).num_elements()
        half, count = half + size * (dtype == tf.bfloat16), count + size
    return 2 * half > count
