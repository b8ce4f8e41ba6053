"""Read examples from arrays in memory or in an `.npz` file, as Keras's data sets have them."""

import contextlib
import zipfile
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples, in_memory


def from_arrays(images, targets, labels=None) -> Examples:
    """Return a split of pixels in memory.

    Args:
        images: uint8 (N, H, W, C), 1 or 3 channels.
        targets: class indices (N,).
        labels: names of the classes; their indices if None.

    Raises:
        ValueError: an array has another shape or dtype, or a target is not an index of a class.
    """
    images, targets = np.asarray(images), np.asarray(targets)
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[-1] not in (1, 3):
        raise ValueError(f"images expected uint8 (N, height, width, 1 or 3), received {images.dtype} {images.shape}.")
    if targets.shape != images.shape[:1] or targets.dtype.kind not in "iu" or not len(targets):
        raise ValueError(f"targets expected {len(images)} class indices, received {targets.dtype} {targets.shape}.")
    labels = tuple(str(i) for i in range(int(targets.max()) + 1)) if labels is None else tuple(labels)
    if targets.min() < 0 or targets.max() >= len(labels):
        raise ValueError(
            f"targets expected indices of the {len(labels)} classes, received {targets.min()} to {targets.max()}."
        )
    return in_memory(images, targets, labels)


def open_arrays(split: str, directory: str | None, part) -> Examples:
    """Open one split of an `.npz` file with `x_train`, `y_train`, `x_test` and `y_test`.

    The file may also have `x_validation` and `y_validation`, and the names of the classes as `labels`.

    Args:
        split: `train`, `test`, `validation`, or a part of one such as `train[:90%]`.
        directory: path or URL of the file. Grey images may lack the channel axis, as in Keras's `mnist.npz`.
        part: a function (split, examples by split, source) that returns the name of the split and the slice of it.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: the file cannot be read.
        ValueError: an array is absent or has another shape or dtype, or the split is unknown.
    """
    with _open_npz(directory) as file:
        missing = [name for name in ("x_train", "y_train", "x_test", "y_test") if name not in file]
        if missing:
            raise ValueError(f"{directory!r} expected the arrays x_train, y_train, x_test and y_test, found no "
                             f"{', '.join(missing)}.")  # fmt: skip
        names = (
            ("train", "test", "validation") if "x_validation" in file and "y_validation" in file else ("train", "test")
        )
        given = {name: file[f"y_{name}"] for name in names}
        parts = {name: y.reshape(-1) for name, y in given.items()}  # (N, 1) in Keras's CIFAR
        name, chosen = part(split, parts, f"arrays {str(directory)!r}")
        images = file[f"x_{name}"]
        labels = (
            file["labels"].tolist()
            if "labels" in file
            else range(1 + max((int(y.max()) for y in parts.values() if y.size), default=0))
        )
    if given[name].shape not in (images.shape[:1], (*images.shape[:1], 1)):
        raise ValueError(f"y_{name} expected the class index of each image of x_{name} {images.shape}, received "
                         f"{given[name].shape}.")  # fmt: skip
    images = images[..., None] if images.ndim == 3 else images
    order = np.random.default_rng(0).permutation(len(images))[chosen]  # a part has all classes
    labels = [label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label) for label in labels]
    return from_arrays(images[order], parts[name][order], labels)


@contextlib.contextmanager
def _open_npz(path: str | None):
    """Open an `.npz` file and yield its arrays: by Python for a local file, which is faster, else by TensorFlow."""
    local = path is not None and Path(path).is_file()
    try:
        if path is None or not local and (not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path)):
            raise FileNotFoundError(
                "directory expected an .npz file of the arrays x_train, y_train, x_test and y_test, found none at "
                f"{path!r}; pass its path as --data-dir."
            )
        with (open if local else tf.io.gfile.GFile)(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise zipfile.BadZipFile("not a complete zip archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                yield file
    except (tf.errors.OpError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        reason = str(error).strip().splitlines()[0]
        raise OSError(
            f"directory expected an .npz file that can be read at {path!r}, which failed ({reason})."
        ) from error
