"""Where examples come from: scikit-learn's digits, one's own folder of images, TensorFlow Datasets.

A source knows the names of its classes and hands out splits. A split streams (index, image, label): the image as
pixels uint8 (H, W, C) or still encoded, the index the same in every epoch, so that seeds can hang on it.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

HELD_OUT = 0.2  # share of every class in a fixed split
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
TEST_FOLDERS = ("test", "validation", "val", "valid")
_SLICE = re.compile(r"(\w+)(?:\[(?:(\d+)%)?:(?:(\d+)%)?\])?")


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
    """

    count: int
    labels: tuple[str, ...]
    stream: Callable
    encoded: bool
    shape: tuple | None = None
    files: tuple[str, ...] | None = None
    counts: tuple[int, ...] | None = None


def open_split(source: str, split: str, directory: str | None = None) -> Examples:
    """Open one split of a source.

    Args:
        source: `digits`, `folder` or `tfds:NAME`.
        split: `train`, `test`, or a part of one, `train[:90%]`.
        directory: the folder of images, or the folder that TensorFlow Datasets keeps its data in.

    Raises:
        FileNotFoundError: the data is absent; the sentence says what to do.
        ValueError: the source or the split is unknown.
    """
    if source == "digits":
        return _digits(split)
    if source == "folder":
        return _folder(split, directory)
    if source.startswith("tfds:"):
        from keras_vit.data.tfds import open_tfds

        return open_tfds(source.removeprefix("tfds:"), split, directory)
    raise ValueError(f"source expected one of digits, folder, tfds:NAME, received {source!r}.")


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

    def stream(seed=None):
        order = tf.range(count, dtype=tf.int64)
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(order, seed=tf.stack([seed, 0]))
        # Constants inside, so that a stream made in another dataset's function holds them once.
        dataset = tf.data.Dataset.from_tensor_slices((order, tf.gather(images, order), tf.gather(targets, order)))
        return dataset if files is None else dataset.map(lambda i, path, y: (i, tf.io.read_file(path), y), 2)

    counts = tuple(np.bincount(targets, minlength=len(labels)).tolist())
    shape = images.shape[1:] if files is None else None
    return Examples(count, tuple(labels), stream, files is not None, shape, files, counts)


def _digits(split):
    """1,797 digits of 8 x 8 pixels written by 43 people; 16 grey levels, white on black."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype("uint8")[..., None]
    rng = np.random.default_rng(0)  # the split is fixed: changing this number changes every figure
    classes = [rng.permutation(np.flatnonzero(bunch.target == digit)) for digit in range(10)]
    cuts = [round(HELD_OUT * len(members)) for members in classes]
    parts = {
        "test": np.concatenate([members[:cut] for members, cut in zip(classes, cuts, strict=True)]),
        "train": np.concatenate([members[cut:] for members, cut in zip(classes, cuts, strict=True)]),
    }
    name, chosen = _part(split, parts, "digits")
    chosen = rng.permutation(parts[name])[chosen]
    return in_memory(images[chosen], bunch.target[chosen], [str(digit) for digit in range(10)])


def _folder(split, directory):
    if directory is None or not Path(directory).is_dir():
        raise FileNotFoundError(
            f"directory expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), found none at {directory!r}."
        )
    root = Path(directory)
    train = root / "train"
    labels = tuple(folder.name for folder in _folders(train if train.is_dir() else root))
    if train.is_dir():
        test = next((root / name for name in TEST_FOLDERS if (root / name).is_dir()), None)
        parts = {"train": _files(train, labels)} | ({"test": _files(test, labels)} if test else {})
    else:
        parts = {"train": [], "test": []}
        for target, files in enumerate(_by_class(root, labels)):
            # By the hash of its name, so that a picture stays on its side when others are added.
            files = sorted(files, key=lambda path: hashlib.sha256(path.name.encode()).digest())
            cut = max(1, round(HELD_OUT * len(files)))
            parts["test"] += [(path, target) for path in files[:cut]]
            parts["train"] += [(path, target) for path in files[cut:]]
    name, chosen = _part(split, parts, f"folder {str(root)!r}")
    rng = np.random.default_rng(0)
    rows = [parts[name][i] for i in rng.permutation(len(parts[name]))[chosen]]
    files = tuple(str(path) for path, _ in rows)
    return in_memory(np.array(files), [target for _, target in rows], labels, files)


def _folders(root):
    found = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))
    if len(found) < 2:
        raise ValueError(f"directory expected a folder for each of at least 2 classes in {str(root)!r}, found "
                         f"{len(found)}.")  # fmt: skip
    return found


def _by_class(root, labels):
    """The image files of each class; raises if a class has none or a folder is no class."""
    strangers = [folder.name for folder in _folders(root) if folder.name not in labels]
    if strangers:
        raise ValueError(f"directory expected only the classes {', '.join(labels)} in {str(root)!r}, found "
                         f"{', '.join(strangers)}.")  # fmt: skip
    for label in labels:
        files = sorted(path for path in (root / label).rglob("*") if path.suffix.lower() in SUFFIXES)
        if not files and root.name not in TEST_FOLDERS:
            raise ValueError(f"directory expected images ({', '.join(SUFFIXES)}) in {str(root / label)!r}, found none.")
        yield files


def _files(root, labels):
    return [(path, target) for target, files in enumerate(_by_class(root, labels)) for path in files]


def _part(split, parts, source):
    """`train[:90%]` -> its name and the slice of its examples."""
    found = _SLICE.fullmatch(split)
    if not found or found[1] not in parts:
        raise ValueError(f"split expected {' or '.join(sorted(parts))} of {source}, or a part as in 'train[:90%]', "
                         f"received {split!r}.")  # fmt: skip
    count = len(parts[found[1]])
    start, stop = (round(count * int(percent) / 100) if percent else None for percent in found.groups()[1:])
    return found[1], slice(start, stop)
