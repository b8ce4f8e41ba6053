"""Read a user's images from CLASS/*.jpg, or train/CLASS/*.jpg and test/CLASS/*.jpg.

The folder can be on any of TensorFlow's file systems. Names and first bytes decide which files are images. One warning
counts the other files.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples, in_memory
from keras_vit.preprocessing.folders import SkippedFiles, image_files_below
from keras_vit.preprocessing.kinds import KINDS, SUFFIXES

HELD_OUT = 0.2  # fraction of every class in the test split
TEST_FOLDERS = ("test", "validation", "val", "valid")


def files_of(names: tuple[str, ...], directory: str) -> set[str]:
    """Return the paths of files in a folder, or beside a table, from their names relative to it."""
    return {name if is_absolute(name) else f"{_root(directory)}/{name}" for name in names}


def name_of(path: str, directory: str) -> str | None:
    """Return the name of a file relative to a folder or a table's folder.

    A file outside of it has no name in a folder (None), and its path as name in a table.
    """
    root = f"{_root(directory)}/"
    return path.removeprefix(root) if path.startswith(root) else path if str(directory).endswith(".csv") else None


def _root(directory: str) -> str:
    return folder_of(directory) if str(directory).endswith(".csv") else str(directory).rstrip("/")


def folder_of(file: str) -> str:
    """Return the folder of a file by its path or URL."""
    return str(file).rpartition("/")[0] or "."


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute or a URL."""
    return "://" in path or Path(path).is_absolute()


def open_folder(split: str, directory: str | None, part, left_out: tuple[str, ...] = ()) -> Examples:
    """Open one split of a folder of images.

    Without a folder `train` (or with a class of that name) the test split is a fifth of every class with two or more
    images: the files whose names have the smallest SHA-256. An image stays in its split when images are added or the
    folder is moved.

    Args:
        split: `train`, `test`, or a part of one such as `train[:90%]`.
        directory: path or URL of the folder.
        part: a function (split, examples by split, source) that returns the name of the split and the slice of it.
        left_out: names of files that take part in the split although they may be deleted.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: the folder holds no classes, no images or a name that is not UTF-8, or the split is unknown.
    """
    classes = files_of_splits(directory, left_out)
    parts = {
        name: [(path, target) for target, files in enumerate(by_class.values()) for path in files]
        for name, by_class in classes.items()
    }
    name, chosen = part(split, parts, f"folder {str(directory).rstrip('/')!r}")
    rng = np.random.default_rng(0)
    rows = [parts[name][i] for i in rng.permutation(len(parts[name]))[chosen]]
    files = tuple(path for path, _ in rows)
    return in_memory(np.array(files), [target for _, target in rows], list(classes["train"]), files)


def files_of_splits(
    directory: str | None, left_out: tuple[str, ...] = (), empty: bool = False
) -> dict[str, dict[str, list[str]]]:
    """Return the files of a folder by split and class. `empty` allows classes without training files."""
    if directory is None or not tf.io.gfile.isdir(directory):
        raise FileNotFoundError(
            f"directory expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), found none at {directory!r}; "
            "pass its path as --data-dir."
        )
    root = str(directory).rstrip("/")
    deleted = files_of(left_out, root)
    given = given_splits(root)
    if given:
        labels = _classes(given["train"])
        splits = {
            split: list(_by_class(folder, labels, deleted, empty or split != "train"))
            for split, folder in given.items()
        }
    else:
        labels = _classes(root)
        splits = {"train": [], "test": []}
        for files in _by_class(root, labels, deleted, empty):
            files = sorted(files, key=lambda path: hashlib.sha256(os.path.basename(path).encode()).digest())
            cut = max(min(max(1, round(HELD_OUT * len(files))), len(files) - 1), 0)
            splits["test"].append(files[:cut])
            splits["train"].append(files[cut:])
    return {split: dict(zip(labels, of_classes, strict=True)) for split, of_classes in splits.items()}


def given_splits(root: str) -> dict[str, str]:
    """Return the folders of the splits `train`, `test` and `validation`, as far as they exist; {} without `train`.

    A validation folder is the test split where there is no folder `test`.
    """
    folders = {name: path for name in ("train", *TEST_FOLDERS) if tf.io.gfile.isdir(path := f"{root}/{name}")}
    train, others = folders.pop("train", None), list(folders.values())
    if train is None or not (others or _folders(train)):  # `train` is a class, as in bus, car, train
        return {}
    return {"train": train, **dict(zip(("test", "validation"), others, strict=False))}


def _folders(root) -> list[str]:
    """Return the names of the folders that can be classes."""
    with _naming(root):
        names = sorted(
            name.rstrip("/") for name in tf.io.gfile.listdir(root)
        )  # cloud storage lists folders with a slash
    names = [name for name in names if not (name.startswith(".") or name == "__MACOSX")]  # macOS adds it to archives
    return [name for name in names if tf.io.gfile.isdir(f"{root}/{name}")]


@contextlib.contextmanager
def _naming(folder):
    """Turn the error about a name that is not UTF-8 into one that names the folder."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(
            f"directory expected names in UTF-8 in {folder!r} and below, received {error.object!r}."
        ) from error


def _classes(root) -> tuple[str, ...]:
    names = _folders(root)
    if len(names) < 2:
        raise ValueError(f"directory expected a folder for each of at least 2 classes in {root!r}, found "
                         f"{len(names)}{': ' * bool(names)}{', '.join(names)}.")  # fmt: skip
    return tuple(names)


def _by_class(root, labels, deleted: set[str], allow_empty: bool = False) -> Iterator[list[str]]:
    """Yield the image files of each class. Raise if a folder is no class, or a class is empty without `allow_empty`."""
    others = [name for name in _folders(root) if name not in labels]
    if others:
        raise ValueError(f"directory expected only the classes {', '.join(labels)} in {root!r}, found "
                         f"{', '.join(others)}.")  # fmt: skip
    skipped = SkippedFiles(root)
    for name in sorted(name for name in tf.io.gfile.listdir(root) if name.lower().endswith(SUFFIXES)):
        if name[0] != "." and not tf.io.gfile.isdir(f"{root}/{name}"):
            skipped.add(name, "in no class's folder")
    for label in labels:
        folder = f"{root}/{label}"
        with _naming(folder):
            files = list(image_files_below(folder, tf.io.gfile, skipped, decodable=True))
        files = sorted({*files, *(path for path in deleted if path.startswith(f"{folder}/"))})
        if not files and not allow_empty:
            raise ValueError(
                f"directory expected images ({', '.join(KINDS)}) in {folder!r}, found none; put images there, or "
                "remove the folder."
            )
        yield files
    skipped.warn()
