"""Define a split of a data set."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Examples:
    """A split of a data set.

    Args:
        count: number of examples.
        labels: names of the classes in order.
        stream: a function of a seed or None that returns a `tf.data.Dataset` of (index int64, image, label int64),
            shuffled by the seed.
        encoded: True if the images are the bytes of files, False if they are pixels.
        shape: (height, width, channels) of the pixels; None if it varies.
        files: paths of the examples' files; None without files.
        counts: number of examples per class; None if unknown before reading all examples.
        read: a function that turns an image of the stream into bytes or pixels. Skipped examples are then not read.
            None if the stream contains the bytes or pixels.
        multi: True if a label is a list (n,) of classes, n >= 0; False if it is one class.
        kind: `classes`; `probabilities` if a label is a probability for each class, float32 (K,); `numbers` if it is
            the value of each target, float32 (K,), and `labels` are the names of the targets.
        targets: classes of the examples in order: indices (N,), or 1 at each of several classes (N, K); or the
            probabilities or values (N, K). None if unknown before reading all examples.
        whole: the split with the files that are left out of this one; None if no file is left out.
        exif: whether to apply the EXIF orientation of encoded images.
        select: a function of positions int64 (M,), which may be a tensor, that returns the `tf.data.Dataset` of the
            examples there; None for a stream.
    """

    count: int
    labels: tuple[str, ...]
    stream: Callable
    encoded: bool
    shape: tuple | None = None
    files: tuple[str, ...] | None = None
    counts: tuple[int, ...] | None = None
    read: Callable | None = None
    multi: bool = False
    kind: str = "classes"
    targets: np.ndarray | None = None
    whole: "Examples | None" = None
    exif: bool = True
    select: Callable | None = None

    def images(self, seed=None):
        """Return `stream(seed)` with each image read."""
        if self.read is None:
            return self.stream(seed)
        return self.stream(seed).map(lambda index, image, label: (index, self.read(image), label), tf.data.AUTOTUNE)

    def listing(self, most: int = 12) -> str:
        """Return a line such as '15 images of 2 classes: cat 10, dog 5' that names at most `most` classes."""
        if self.kind == "numbers":
            return f"{self.count:,} images with values of {', '.join(self.labels[:most])}"
        counts = self.counts or [None] * len(self.labels)
        rows = [name if n is None else f"{name} {round(n):,}" for name, n in zip(self.labels, counts, strict=True)]
        more = f", and {len(rows) - most:,} more" if len(rows) > most else ""
        return f"{self.count:,} images of {len(rows):,} classes: {', '.join(rows[:most])}{more}"


def in_memory(images, targets, labels, files=None, kind: str = "classes") -> Examples:
    """Return a split of arrays in memory.

    Args:
        images: uint8 (N, H, W, C), or paths of files (N,).
        targets: class indices (N,), 1 at each of several classes (N, K), or the probabilities or values (N, K).
        labels: names of the classes or targets.
        files: paths of the examples' files; None for pixels.
        kind: as in `Examples`.
    """
    targets = np.asarray(targets, "int64" if kind == "classes" else "float32")
    count = len(targets)

    @functools.cache
    def tensors():
        # Outside of graphs, because a graph holds at most 2 GiB. Not before the first stream, because multi-worker
        # strategies must be created before any tensor.
        with tf.init_scope(), tf.device("CPU"):
            return tf.constant(images), tf.constant(targets)

    multi = kind == "classes" and targets.ndim == 2

    def select(order):
        rows = tf.data.Dataset.from_tensor_slices((order, *(tf.gather(tensor, order) for tensor in tensors())))
        return rows.map(lambda index, image, hot: (index, image, tf.where(hot > 0)[:, 0])) if multi else rows

    def stream(seed=None):
        order = tf.range(count, dtype=tf.int64)
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(order, seed=tf.stack([seed, 0]))
        return select(order)

    return Examples(
        count,
        tuple(labels),
        stream,
        encoded=files is not None,
        shape=images.shape[1:] if files is None else None,
        files=files,
        counts=None if kind == "numbers" else tuple(count_classes(targets, len(labels)).tolist()),
        read=None if files is None else tf.io.read_file,
        multi=multi,
        kind=kind,
        targets=targets,
        select=select,
    )


def count_classes(targets: np.ndarray, classes: int) -> np.ndarray:
    """Return the number of examples of each class (K,) from `targets` of classes or probabilities."""
    return targets.sum(axis=0) if targets.ndim == 2 else np.bincount(targets, minlength=classes)


def require_some(count: int, split: str, source: str) -> None:
    """Raise a ValueError for an empty split, which would otherwise fail at the first evaluation of a run."""
    if not count:
        raise ValueError(f"split expected one with examples, received {split!r} of {source}, which has none.")
