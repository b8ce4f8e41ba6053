"""Name the broken or deleted file that stops a run, or leave such files out."""

import contextlib
import dataclasses
import warnings
from collections.abc import Collection

import numpy as np
import tensorflow as tf

from keras_vit.data.decode import decode, decode_other
from keras_vit.data.examples import Examples
from keras_vit.data.settings import untuned
from keras_vit.preprocessing.decode import missing_package
from keras_vit.preprocessing.kinds import HEAD, KINDS, kind_of

MOST, FEW = 0.01, 3  # fraction of the files that may be left out, and number that may in any case
DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.PermissionDeniedError,
)


def most_left_out(count: int) -> float:
    """Return how many unreadable files of a split of `count` files may be left out."""
    return max(FEW, MOST * count)


class BrokenFile(ValueError):
    """Raised for a data file that cannot be read, whose path is `path`."""

    def __init__(self, message: str, path: str):
        super().__init__(message)
        self.path = path


def without_broken(examples: Examples, source: str) -> Examples:
    """Return a split without its broken files, which are found by reading all files once, before the run begins.

    The number of steps and the order of the examples are therefore the same when the run is resumed. An example keeps
    its index, and thus its augmentation. `source` names the split in the warning.

    Raises:
        ValueError: more than three files and more than 1 % are broken, or all of them.
    """
    if not examples.encoded:
        return examples

    def good(index, image, label):
        data = examples.read(image) if examples.read else image
        # Decoding at an eighth of the size shows whether a JPEG is complete, and is faster.
        sizes = tf.cond(
            tf.io.is_jpeg(data),
            lambda: tf.shape(tf.io.decode_jpeg(data, channels=3, ratio=8)),
            lambda: tf.shape(decode_other(data)),
        )
        return tf.where(sizes[0] > 0, index, index)  # depends on the decoding, so that it is not optimised away

    every = np.fromiter(untuned(examples.stream().map(lambda index, *_: index)).as_numpy_iterator(), "int64")
    readable = examples.stream().map(good, tf.data.AUTOTUNE).ignore_errors(log_warning=False)
    readable = np.fromiter(untuned(readable).as_numpy_iterator(), "int64")
    broken = np.setdiff1d(every, readable)
    if not len(broken):
        return examples
    positions = np.flatnonzero(np.isin(every, broken))
    names = [examples.files[i] if examples.files else f"example {every[i]}" for i in positions[:3]]
    more = ", ..." * (len(positions) > 3)
    files = f"{len(broken)} of the {examples.count:,} files of {source}: {', '.join(names)}{more}"
    if len(broken) > most_left_out(examples.count) or not len(readable):
        raise ValueError(
            f"on_error 'skip' expected at most {FEW} files, or {MOST:.0%}, to be unreadable, found {files}."
        )
    warnings.warn(f"left out, because they cannot be decoded: {files}.", stacklevel=2)
    return _selected(examples, np.isin(every, readable), every)


def without_absent(examples: Examples, files: Collection[str]) -> Examples:
    """Return a split without the given files if they no longer exist. Other files keep order and seeds."""
    present = np.array([path not in files or tf.io.gfile.exists(path) for path in examples.files])
    return examples if present.all() else _selected(examples, present, np.arange(examples.count))


def _selected(examples: Examples, mask, indices) -> Examples:
    """Return the split of the examples that a mask (N,) selects. `indices` (N,) are the examples' indices."""
    by_index = np.zeros(indices.max() + 1, bool)
    by_index[indices] = mask

    def stream(seed=None):
        return examples.stream(seed).filter(lambda index, *_: tf.gather(tf.constant(by_index), index))

    counts = examples.counts
    if examples.targets is not None and counts:
        left_out = np.bincount(examples.targets[~mask], minlength=len(counts))
        counts = tuple((np.array(counts) - left_out).tolist())
    return dataclasses.replace(
        examples,
        count=int(mask.sum()),
        stream=stream,
        files=tuple(np.array(examples.files)[mask]) if examples.files else None,
        targets=None if examples.targets is None else examples.targets[mask],
        counts=counts,
        whole=examples,
    )


@contextlib.contextmanager
def naming_broken_files(*splits: Examples):
    """Turn TensorFlow's error about a broken, deleted or unreadable file into a ValueError that names the file.

    For examples without files, such as in TensorFlow Datasets, the message repeats TensorFlow's reason.
    """
    try:
        yield
    except DATA_ERRORS as error:
        files = (path for split in splits for path in split.files or ())
        path, reason = next(((path, fault) for path in files if (fault := _error_of(path))), (None, None))
        if path is None:
            if all(split.files for split in splits):  # all files are images, so the error has another cause
                raise
            reason = str(error.message).strip().splitlines()[0]
            raise ValueError(f"data expected examples that can be read, received one that cannot: {reason}") from error
        if not tf.io.gfile.exists(path):
            sentence = (f"data expected the image file {path!r}, which was there when the run began, found none; put "
                        "it back, or go on without it.")  # fmt: skip
        elif isinstance(reason, tf.errors.PermissionDeniedError):
            sentence = f"data expected image files that may be read, received {path!r}, which this user may not read."
        elif needed := missing_package(kind := _kind_of(path)):
            sentence = f"data expected images that can be decoded here, received {kind} in {path!r}: {needed}."
        else:
            sentence = (
                f"data expected an image file ({', '.join(KINDS)}), received {path!r}; repair or remove it, or leave "
                "such files out by data.on_error=skip."
            )
        raise BrokenFile(sentence, path) from error


def _error_of(path) -> tf.errors.OpError | None:
    """Decode a file and return TensorFlow's error; None if the file is an image."""
    try:
        decode(tf.io.read_file(path))
    except tf.errors.OpError as error:
        return error
    return None


def _kind_of(path) -> str | None:
    with tf.io.gfile.GFile(path, "rb") as file:
        return kind_of(file.read(HEAD))
