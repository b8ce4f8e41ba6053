"""Files that are no images: named where a run stops at them, or left out and counted."""

import contextlib
import dataclasses
import warnings

import numpy as np
import tensorflow as tf

from keras_vit.data.decode import decode, decode_other
from keras_vit.data.examples import Examples
from keras_vit.data.settings import untuned

MOST = 0.01  # share of the files that may be left out
DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.PermissionDeniedError,
)


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
        ValueError: more than one in a hundred are none.
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
    if len(broken) > MOST * examples.count:
        raise ValueError(f"on_error 'skip' expected at most {MOST:.0%} of the files to be no images, found {found}.")
    warnings.warn(f"no images, and left out: {found}.", stacklevel=2)
    kept = np.isin(np.arange(every.max() + 1), whole)

    def stream(seed=None):
        return examples.stream(seed).filter(lambda index, *_: tf.gather(tf.constant(kept), index))

    counts = examples.counts
    if examples.targets is not None and counts:
        counts = tuple((np.array(counts) - np.bincount(examples.targets[rows], minlength=len(counts))).tolist())
    return dataclasses.replace(
        examples,
        count=len(whole),
        stream=stream,
        files=tuple(np.array(examples.files)[np.isin(every, whole)]) if examples.files else None,
        targets=None if examples.targets is None else examples.targets[np.isin(every, whole)],
        counts=counts,
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
            raise ValueError(f"data expected the image file {path!r}, which was there when the run began, found none; "
                             "put it back.") from error  # fmt: skip
        if isinstance(reason, tf.errors.PermissionDeniedError):
            raise ValueError(
                f"data expected image files that may be read, received {path!r}, which this user may not read."
            ) from error
        raise ValueError(
            "data expected an image file (JPEG, PNG, BMP of 24 or 32 bits a pixel, ...), received "
            f"{path!r}; on_error='skip' leaves such files out."
        ) from error


def _mistake_of(path) -> tf.errors.OpError | None:
    """TensorFlow's error about a file; None where it is an image."""
    try:
        decode(tf.io.read_file(path))
    except tf.errors.OpError as error:
        return error
    return None
