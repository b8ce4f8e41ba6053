"""Set TensorFlow's switches of a process that only serves models."""

import json
import os
from pathlib import Path

import tensorflow as tf

from keras_vit.serve.repository import version_numbers

SWITCH = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"


def use_system_allocator() -> None:
    """Make TensorFlow use the system's allocator, which releases the memory of large images.

    oneDNN's allocator, the default, never releases memory. TensorFlow reads the switch at its first allocation. A value
    in the environment is not changed.
    """
    os.environ.setdefault(ALLOCATOR, "1")


def prepack_weights(folders) -> None:
    """Make oneDNN prepack each weight once, if all models are stored in bfloat16 and have no adapters.

    In float32, prepacking is slower. With adapters, each would have a copy of the weights of their common base. After
    prepacking, matmuls ignore later changes of a weight, so the process must only serve. TensorFlow reads the switch at
    its first matmul. A value in the environment is not changed.

    Args:
        folders: folders of the models, `saved_models/NAME`. Folders without an export turn the switch off.
    """
    if SWITCH not in os.environ and all(_in_bfloat16(Path(folder)) for folder in folders):
        os.environ[SWITCH] = "1"


def _in_bfloat16(folder: Path) -> bool:
    """Return whether most weights of a model's newest SavedModel are in bfloat16."""
    versions = [folder / str(number) for number in version_numbers(folder)]
    saved = [version for version in versions if (version / "saved_model.pb").is_file()]
    if not saved or _has_adapters(saved[-1]):
        return False
    try:
        weights = tf.train.load_checkpoint(str(saved[-1] / "variables" / "variables"))
    except (tf.errors.OpError, ValueError):  # loading the version reports the error
        return False
    shapes, half, count = weights.get_variable_to_shape_map(), 0, 0
    for name, dtype in weights.get_variable_to_dtype_map().items():
        size = tf.TensorShape(shapes[name]).num_elements()
        half, count = half + size * (dtype == tf.bfloat16), count + size
    return 2 * half > count


def _has_adapters(version: Path) -> bool:
    """Return whether a version holds adapters next to their base, by its manifest."""
    try:
        return "adapters" in json.loads((version / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False
