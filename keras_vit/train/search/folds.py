"""Divide the training data of a recipe into folds, and write the data of each fold."""

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_vit.data.check import check_files
from keras_vit.data.examples import Examples
from keras_vit.data.near_duplicates import thumbnail
from keras_vit.data.sources import open_data
from keras_vit.data.splits import File, class_of_labels, class_of_values, fold_of
from keras_vit.data.table import SEPARATOR, write_table
from keras_vit.train.recipe import Recipe

SOURCES = ("folder", "csv", "digits", "arrays")
SPLITS = {"train_split": "train", "test_split": "test"}


def open_folds(recipe: Recipe, data_dir: str | None, folder: Path, count: int) -> list[Recipe]:
    """Return a recipe for each fold, which trains on the other folds and has the fold as its validation split.

    The folds divide the training split, and the validation split where the recipe has one; the test split stays apart.
    They are stratified by class, by the rarest of several labels or by the fifth of the first value, and
    near-duplicates are in one fold. The data of each fold is a file in `folder`: a table of the images, or, for images
    that are no files, an `.npz` file. Files that exist are used as they are.

    Raises:
        ValueError: the source streams its examples, an array has several labels per image, or a class has too few
            images.
    """
    data = recipe.data
    if data.source not in SOURCES:
        raise ValueError(f"folds expected data of the source {', '.join(SOURCES)}, received {data.source!r}, whose "
                         "images are streamed; a validation split and several seeds measure it.")  # fmt: skip
    suffix = ".csv" if data.source in ("folder", "csv") else ".npz"
    files = [folder / f"fold-{number}{suffix}" for number in range(1, count + 1)]
    if not all(file.is_file() for file in files):
        own = recipe.evaluate.split not in (None, data.test_split)
        names = [data.train_split, *([recipe.evaluate.split] if own else [])]
        parts = [open_data(data, name, data_dir) for name in names]
        test = open_data(data, data.test_split, data_dir)
        if parts[0].multi and suffix != ".csv":
            raise ValueError("folds expected one class per image with arrays, received several labels per image; a "
                             "CSV table of images fits.")  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        (_write_tables if suffix == ".csv" else _write_arrays)(parts, test, files)
    source = "csv" if suffix == ".csv" else "arrays"
    evaluate = replace(recipe.evaluate, split="validation")
    return [
        replace(recipe, evaluate=evaluate, data=replace(data, source=source, directory=str(file), **SPLITS))
        for file in files
    ]


def _write_tables(parts: list[Examples], test: Examples, tables: list[Path]) -> None:
    """Write a table of images for each fold."""
    paths = [path for part in parts for path in part.files]
    targets = np.concatenate([part.targets for part in parts])
    classes = dict(zip(paths, _classes(parts[0], targets), strict=True))
    cells = dict(zip(paths, (_cells(parts[0], row) for row in targets), strict=True))
    readable = [fact for fact in check_files([(path, "", classes[path]) for path in paths]) if fact.broken is None]
    files = [File(fact.path, fact.label, None, fact.digest, fact.thumbnail) for fact in readable]
    fold = fold_of(files, len(tables))
    if targets.ndim == 1:
        _require_all_classes(files, fold, len(tables))
    tested = [
        {"path": _absolute(path), **_cells(test, row), "split": "test"}
        for path, row in zip(test.files, test.targets, strict=True)
    ]
    columns = ("path", *(name for name in tested[0] if name not in ("path", "split")), "split")
    for number, table in enumerate(tables):
        trained = [
            {"path": _absolute(file.path), **cells[file.path],
             "split": "validation" if fold[file.path] == number else "train"}
            for file in files
        ]  # fmt: skip
        write_table(table, trained + tested, columns)


def _classes(examples: Examples, targets: np.ndarray) -> list[str]:
    """Return the class of each image, or what stands for it where an image has several labels or values."""
    if examples.kind == "numbers":
        return class_of_values(targets)
    if examples.kind == "probabilities":
        targets = targets.argmax(axis=1)
    return class_of_labels(examples.labels, targets) if targets.ndim == 2 else [examples.labels[i] for i in targets]


def _cells(examples: Examples, target) -> dict[str, str]:
    """Return the cells of a table that state the target of an image."""
    if examples.kind != "classes":
        return {name: repr(float(value)) for name, value in zip(examples.labels, target, strict=True)}
    if examples.multi:
        return {"labels": SEPARATOR.join(examples.labels[i] for i in np.flatnonzero(target))}
    return {"label": examples.labels[target]}


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def _write_arrays(parts: list[Examples], test: Examples, archives: list[Path]) -> None:
    """Write an `.npz` file for each fold."""
    images = np.concatenate([_pixels(part) for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    labels = parts[0].labels
    files = [
        File(str(i), labels[target], None, hashlib.sha256(image.tobytes()).hexdigest(), thumbnail(image))
        for i, (image, target) in enumerate(zip(images, targets, strict=True))
    ]
    fold = fold_of(files, len(archives))
    _require_all_classes(files, fold, len(archives))
    fold = np.array([fold[file.path] for file in files])
    tested = {"x_test": _pixels(test), "y_test": test.targets, "labels": np.array(labels)}
    for number, archive in enumerate(archives):
        held = fold == number
        partial = archive.with_suffix(".partial.npz")
        np.savez_compressed(partial, x_train=images[~held], y_train=targets[~held], x_validation=images[held],
                            y_validation=targets[held], **tested)  # fmt: skip
        partial.replace(archive)


def _pixels(examples: Examples) -> np.ndarray:
    """Return all images of a split in memory, (N, H, W, C)."""
    return np.stack([image for _, image, _ in examples.stream(None).as_numpy_iterator()])


def _require_all_classes(files: list[File], fold: dict[str, int], count: int) -> None:
    """Raise a ValueError unless each fold has images of every class."""
    images = Counter(file.label for file in files)
    folds = {label: len({fold[file.path] for file in files if file.label == label}) for label in images}
    lacking = [label for label, number in folds.items() if number < count]
    if lacking:
        raise ValueError(f"folds expected at most {min(folds.values())}, so that each fold has images of every class, "
                         f"received {count}; class {lacking[0]!r} has {images[lacking[0]]} images, and near-duplicates "
                         "stay in one fold.")  # fmt: skip
