"""A split of a dataset: what every source hands out."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Examples:
    """A split.

    Args:
        count: number of examples.
        labels: the classes' names in order.
        stream: seed or None -> a `tf.data.Dataset` of (index int64, image, label int64), shuffled by the seed.
        encoded: True where the images are files' bytes, False where they are pixels.
        shape: (height, width, channels) of the pixels, None where it varies.
        files: path of each example's file, where each has one.
        counts: examples of each class, where that is known without reading them all.
        read: function of the stream's image -> the file's bytes or the pixels, where the stream does not hold them
            itself: what is passed over is then not read.
        multi: True where a label is a list (n,) of classes, n >= 0, and not one class.
        targets: class index of each example in order, where that is known without reading them all.
        whole: the split with the files that are left out of this one; None where none is.
        exif: whether encoded images are turned as their EXIF orientation says.
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
    targets: np.ndarray | None = None
    whole: "Examples | None" = None
    exif: bool = True

    def images(self, seed=None):
        """`stream`, each image read."""
        if self.read is None:
            return self.stream(seed)
        return self.stream(seed).map(lambda index, image, label: (index, self.read(image), label), tf.data.AUTOTUNE)

    def listing(self, most: int = 12) -> str:
        """One line for people: '15 images of 2 classes: cat 10, dog 5'.

        Args:
            most: classes to name.
        """
        counts = self.counts or [None] * len(self.labels)
        rows = [name if n is None else f"{name} {n:,}" for name, n in zip(self.labels, counts, strict=True)]
        more = f", and {len(rows) - most:,} more" if len(rows) > most else ""
        return f"{self.count:,} images of {len(rows):,} classes: {', '.join(rows[:most])}{more}"


def in_memory(images, targets, labels, files=None) -> Examples:
    """A split of arrays.

    Args:
        images: uint8 (N, H, W, C), or N paths of files.
        targets: N class indices.
        labels: the classes' names.
        files: path of each example's file, where each has one.
    """
    targets = np.asarray(targets, "int64")
    count = len(targets)

    @functools.cache
    def tensors():
        # A stream made in another dataset's function takes them from outside: a graph holds no more than 2 GiB. Not
        # made before the first stream, for strategies of several processes come before any tensor.
        with tf.init_scope(), tf.device("CPU"):
            return tf.constant(images), tf.constant(targets)

    def stream(seed=None):
        order = tf.range(count, dtype=tf.int64)
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(order, seed=tf.stack([seed, 0]))
        return tf.data.Dataset.from_tensor_slices((order, *(tf.gather(tensor, order) for tensor in tensors())))

    return Examples(
        count,
        tuple(labels),
        stream,
        encoded=files is not None,
        shape=images.shape[1:] if files is None else None,
        files=files,
        counts=tuple(np.bincount(targets, minlength=len(labels)).tolist()),
        read=None if files is None else tf.io.read_file,
        targets=targets,
    )


def require_some(count: int, split: str, source: str) -> None:
    """Raise a ValueError for a split of no examples, which else is noticed at the first evaluation, far into a run."""
    if not count:
        raise ValueError(f"split expected one with examples, received {split!r} of {source}, which has none.")
