"""Find labelled image files for an evaluation: in a folder of classes, or by a CSV file."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_vit.data.folder import TEST_FOLDERS
from keras_vit.data.numbers import numbers_of
from keras_vit.data.table import file_of, read_table, several_of
from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.inputs import imagenet_classes


def labelled_files(source: str | os.PathLike, argument: str = "--data") -> tuple[list[str], list[str]]:
    """Return the image files of a folder or a CSV file, and the name of the class of each.

    Args:
        source: a folder CLASS/IMAGE; a folder with `train` and a test folder, which means the test folder; or a `.csv`
            table with the columns `path` and `label`, as for training. If it has a column `split`, only its rows of
            `test` are meant.
        argument: name of the argument in error messages.

    Raises:
        FileNotFoundError: the source does not exist.
        ValueError: the source has no images or no labels, or the labels are of one class.
    """
    path = Path(source)
    if path.is_file() and path.suffix.lower() == ".csv":
        files, labels = _from_csv(path, argument, "test")
    elif path.is_dir():
        files, labels = _from_folder(path, argument)
    elif path.exists():
        raise ValueError(f"{argument} expected a folder of classes or a .csv file, received {str(source)!r}.")
    else:
        raise FileNotFoundError(f"{argument} expected a folder or a .csv file, found nothing at {str(source)!r}.")
    if not files:
        raise ValueError(f"{argument} expected images, found none in {str(path)!r}.")
    if len(set(labels)) < 2:
        raise ValueError(f"{argument} expected images of at least 2 classes, found only {labels[0]!r} in "
                         f"{str(path)!r}.")  # fmt: skip
    return files, labels


def files_with_values(source, targets: Sequence[str], argument: str = "--data") -> tuple[list[str], np.ndarray]:
    """Return the image files of a CSV file, and the values (N, T) of the targets of a regression.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file lacks a target's column, a value is no number, or it has no rows of the split `test`.
    """
    _, rows = read_table(source, ("path", *targets), argument)
    rows = _rows_of_test(rows, source, argument)
    return [file_of(row["path"], source) for row in rows], numbers_of(rows, tuple(targets), source)


def files_with_labels(source, labels: Sequence[str], argument: str = "--data") -> tuple[list[str], np.ndarray]:
    """Return the image files of a CSV file, and 0 or 1 for each label of a model of several labels, (N, K).

    The column `labels` may lack labels of the model. Columns of 0 and 1 must be those of the model, in any order. If
    the table has a column `split`, only its rows of `test` are meant.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file has other labels or one class per image, or no rows of the split `test`.
    """
    if Path(source).is_dir():
        raise ValueError(f"{argument} expected a CSV file, whose column labels has several labels per image, received "
                         f"the folder {str(source)!r}.")  # fmt: skip
    columns, rows = read_table(source, (), argument)
    if "label" in columns:
        raise ValueError(f"{argument} expected the column labels, or one column of 0 and 1 for each label, for a model "
                         f"of several labels per image, received {str(source)!r} with the column label.")  # fmt: skip
    rows = _rows_of_test(rows, source, argument)
    names, hot = several_of(columns, rows, source)
    missing = [name for name in labels if name not in names] if "labels" not in columns else []
    unknown = [name for name in names if name not in labels]
    if missing or unknown:
        found = f"{_few(unknown)} beside them" if unknown else f"none of {_few(missing)}"
        raise ValueError(f"{argument} expected labels of the model ({_few(labels)}), found {found} in {str(source)!r}.")
    chosen = np.zeros((len(rows), len(labels)), "int64")
    for i, name in enumerate(labels):
        if name in names:
            chosen[:, i] = hot[:, names.index(name)]
    return [file_of(row["path"], source) for row in rows], chosen


def _rows_of_test(rows, source, argument):
    """Return the rows of the split `test`, or all rows of a table without splits."""
    rows = [row for row in rows if row.get("split", "test") == "test"]
    if not rows:
        raise ValueError(f"{argument} expected rows with 'test' in the column split of {str(source)!r}, found none.")
    return rows


def training_files(source: str | os.PathLike, argument: str) -> list[str]:
    """Return the image files of a `.csv` file or a folder.

    A folder with `train` means the folder `train`, and a file with a column `split` its rows of `train`.

    Raises:
        FileNotFoundError: the source does not exist.
        ValueError: the source has no images.
    """
    path = Path(source)
    if path.suffix.lower() == ".csv" and path.is_file():
        return _from_csv(path, argument, "train")[0]
    if not path.is_dir():
        return labelled_files(source, argument)[0]
    files = list(image_files_below(str(path / "train" if (path / "train").is_dir() else path)))
    if not files:
        raise ValueError(f"{argument} expected images, found none in {str(path)!r}.")
    return files


def split_folder(path: Path) -> Path:
    """Return the test folder of a folder with `train` and a test folder; else the folder itself."""
    test = next((path / name for name in TEST_FOLDERS if (path / name).is_dir()), None)
    return test if test is not None and (path / "train").is_dir() else path


def _from_folder(path: Path, argument: str) -> tuple[list[str], list[str]]:
    path = split_folder(path)
    files = list(image_files_below(str(path)))
    labels = [Path(file).relative_to(path).parts[0] for file in files]
    if loose := [Path(file).name for file in files if Path(file).parent == path]:
        raise ValueError(f"{argument} expected images in folders named like their classes, found {len(loose):,} images "
                         f"without a label in {str(path)!r}, such as {loose[0]!r}.")  # fmt: skip
    return files, labels


def _from_csv(path: Path, argument: str, split: str) -> tuple[list[str], list[str]]:
    _, rows = read_table(path, ("path", "label"), argument)
    rows = [row for row in rows if row.get("split", split) == split]
    if not rows:
        raise ValueError(f"{argument} expected rows with {split!r} in the column split of {str(path)!r}, found none.")
    return [file_of(row["path"], path) for row in rows], [row["label"] for row in rows]


def class_indices(names: Sequence[str], classes: Sequence[str], argument: str = "--data") -> np.ndarray:
    """Return the model's class index of each label name.

    The data may lack classes of the model. WordNet ids are known for the 1,000 classes of ImageNet. A model without
    class names takes the names of as many classes in sorted order.

    Args:
        names: the label of each image.
        classes: the classes of the model, in order.
        argument: name of the argument in error messages.

    Raises:
        ValueError: the data has a class that the model does not have.
    """
    indices = {name: i for i, name in enumerate(classes)}
    found = sorted(set(names))
    if not set(found) <= indices.keys():
        numbers = [number for number, _ in imagenet_classes()]
        if len(classes) == len(numbers) and set(found) <= set(numbers):
            indices = {number: i for i, number in enumerate(numbers)}
        elif tuple(classes) == tuple(map(str, range(len(classes)))) and len(found) == len(classes):
            indices = {name: i for i, name in enumerate(found)}
        else:
            unknown = [name for name in found if name not in indices]
            raise ValueError(f"{argument} expected classes of the model ({_few(classes)}), found {len(unknown):,} "
                             f"others ({_few(unknown)}).")  # fmt: skip
    return np.array([indices[name] for name in names])


def _few(names) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names):,} in all" if len(names) > 5 else "")
