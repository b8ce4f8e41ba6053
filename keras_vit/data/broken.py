"""Files that are no images, or gone: named where a run stops at them, or left out and counted."""

import contextlib
import dataclasses
import warnings
from collections.abc import Collection

import numpy as np
import tensorflow as tf

from keras_vit.data.decode import decode, decode_other
from keras_vit.data.examples import Examples
from keras_vit.data.settings import untuned
from keras_vit.preprocessing.kinds import KINDS

MOST, FEW = 0.01, 3  # share of the files that may be left out, and how many may whatever the share
DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.PermissionDeniedError,
)


class BrokenFile(ValueError):
    """A file of the data that cannot be read.

    Args:
        message: one sentence.
        path: of the file.
    """

    def __init__(self, message: str, path: str):
        super().__init__(message)
        self.path = path


def without_broken(examples: Examples, source: str) -> Examples:
    """A split without its files that are no images, found by reading all of them once.

    They are found before the run begins, so that the number of examples, hence of steps, and the order of the
    others are the same whenever the run goes on; and an example keeps its index, hence its augmentation.

    Args:
        examples: the split.
        source: what to call it in the warning.

    Returns:
        The split itself where all its files are images.

    Raises:
        ValueError: more than three, and more than one in a hundred, are none; or none is left.
    """
    if not examples.encoded:
        return examples

    def good(index, image, label):
        data = examples.read(image) if examples.read else image
        # An eighth of the size is enough to see whether a JPEG's data is whole, in a third of the time.
        sizes = tf.cond(
            tf.io.is_jpeg(data),
            lambda: tf.shape(tf.io.decode_jpeg(data, channels=3, ratio=8)),
            lambda: tf.shape(decode_other(data)),
        )
        return tf.where(sizes[0] > 0, index, index)  # hangs on the decoding, which must not be optimised away

    every = np.fromiter(untuned(examples.stream().map(lambda index, *_: index)).as_numpy_iterator(), "int64")
    whole = examples.stream().map(good, tf.data.AUTOTUNE).ignore_errors(log_warning=False)
    whole = np.fromiter(untuned(whole).as_numpy_iterator(), "int64")
    broken = np.setdiff1d(every, whole)
    if not len(broken):
        return examples
    rows = np.flatnonzero(np.isin(every, broken))
    names = [examples.files[row] if examples.files else f"example {every[row]}" for row in rows[:3]]
    found = f"{len(broken)} of the {examples.count:,} files of {source}: {', '.join(names)}{', ...' * (len(rows) > 3)}"
    if len(broken) > max(FEW, MOST * examples.count) or not len(whole):
        raise ValueError(
            f"on_error 'skip' expected at most {FEW} files, or {MOST:.0%}, to be no images, found {found}."
        )
    warnings.warn(f"no images, and left out: {found}.", stacklevel=2)
    return _without(examples, np.isin(every, whole), every)


def without_absent(examples: Examples, files: Collection[str]) -> Examples:
    """Return a split without the given files that no longer exist; the others keep their order and their seeds."""
    kept = np.array([path not in files or tf.io.gfile.exists(path) for path in examples.files])
    return examples if kept.all() else _without(examples, kept, np.arange(examples.count))


def _without(examples: Examples, kept, indices) -> Examples:
    """A split of the examples that are kept (N,), each with its index (N,)."""
    by_index = np.zeros(indices.max() + 1, bool)
    by_index[indices] = kept

    def stream(seed=None):
        return examples.stream(seed).filter(lambda index, *_: tf.gather(tf.constant(by_index), index))

    counts = examples.counts
    if examples.targets is not None and counts:
        left = np.bincount(examples.targets[~kept], minlength=len(counts))
        counts = tuple((np.array(counts) - left).tolist())
    return dataclasses.replace(
        examples,
        count=int(kept.sum()),
        stream=stream,
        files=tuple(np.array(examples.files)[kept]) if examples.files else None,
        targets=None if examples.targets is None else examples.targets[kept],
        counts=counts,
        whole=examples,
    )


@contextlib.contextmanager
def naming_broken_files(*splits: Examples):
    """Turn TensorFlow's error about a file that is gone, no image or not to be read into a ValueError that names it.

    Where the examples do not come from files of their own, as those of TensorFlow Datasets, it has TensorFlow's words.
    """
    try:
        yield
    except DATA_ERRORS as error:
        files = (path for split in splits for path in split.files or ())
        path, reason = next(((path, found) for path in files if (found := _mistake_of(path))), (None, None))
        if path is None:
            if all(split.files for split in splits):  # and all of them are images: it is not about the data
                raise
            reason = str(error.message).strip().splitlines()[0]
            raise ValueError(f"data expected examples that can be read, received one that cannot: {reason}") from error
        if not tf.io.gfile.exists(path):
            sentence = (f"data expected the image file {path!r}, which was there when the run began, found none; put "
                        "it back, or go on without it.")  # fmt: skip
        elif isinstance(reason, tf.errors.PermissionDeniedError):
            sentence = f"data expected image files that may be read, received {path!r}, which this user may not read."
        else:
            sentence = (
                f"data expected an image file ({', '.join(KINDS)}), received {path!r}; repair or remove it, or leave "
                "such files out by data.on_error=skip."
            )
        raise BrokenFile(sentence, path) from error


def _mistake_of(path) -> tf.errors.OpError | None:
    """TensorFlow's error about a file; None where it is an image."""
    try:
        decode(tf.io.read_file(path))
    except tf.errors.OpError as error:
        return error
    return None
