"""Read images and labels from a table: a CSV file with one row per image."""

import csv
import hashlib
import io
import os

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples, in_memory
from keras_vit.data.folder import HELD_OUT, files_of

SEPARATOR = ";"  # between the labels of an image
_FORMS = "the columns path and label, path and labels, or path and one column of 0 and 1 for each label"


def folder_of(directory: str | None) -> str | None:
    """Return the folder of a table, to which its paths are relative; any other directory unchanged."""
    return os.path.dirname(directory) or "." if directory and str(directory).lower().endswith(".csv") else directory


def open_table(split: str, directory: str | None, part, left_out: tuple[str, ...] = ()) -> Examples:
    """Open one split of a table with the column `path`, relative to the table's folder, and the labels.

    The labels are the column `label` (one class per image), the column `labels` (several, separated by `;`), or one
    column of 0 and 1 for each label. A column `split` names the split of each row. Without that column, the files
    whose names have a SHA-256 in the lowest fifth are the test split, so that an image stays in its split.

    Args:
        split: `train`, `test`, another split of the table, or a part of one such as `train[:90%]`.
        directory: path or URL of the table.
        part: a function (split, examples by split, source) that returns the name of the split and the slice of it.
        left_out: names of files that take part in the split although they may be deleted.

    Raises:
        FileNotFoundError: the table or a file that it names does not exist.
        ValueError: the table has other columns, a value is wrong, or the split is unknown.
    """
    if directory is None or not tf.io.gfile.exists(directory) or tf.io.gfile.isdir(directory):
        raise FileNotFoundError(f"directory expected a CSV file with {_FORMS}, found none at {directory!r}; pass its "
                                "path as --data-dir.")  # fmt: skip
    columns, rows = _rows(directory)
    labels, targets = _targets(columns, rows, directory)
    if len(labels) < 2:
        raise ValueError(f"directory expected at least 2 labels in {str(directory)!r}, found {len(labels)}.")
    parts = {"train": [], "test": []} if "split" not in columns else {}
    for i, row in enumerate(rows):
        parts.setdefault(row["split"] if "split" in columns else _split_of(row["path"]), []).append(i)
    name, chosen = part(split, parts, f"csv {str(directory)!r}")
    order = np.random.default_rng(0).permutation(parts[name])[chosen]
    files = tuple(tf.io.gfile.join(folder_of(directory), rows[i]["path"]) for i in order)
    known = files_of(left_out, folder_of(directory))
    missing = next((path for path in files if path not in known and not tf.io.gfile.exists(path)), None)
    if missing:
        raise FileNotFoundError(f"path expected files that exist, received {missing!r} in {str(directory)!r}.")
    return in_memory(np.array(files), targets[order], labels, files)


def _rows(path):
    """Return the names of the columns, and the rows as dicts."""
    with tf.io.gfile.GFile(path) as file:
        reader = csv.DictReader(io.StringIO(file.read().removeprefix("\ufeff"), newline=""))
        rows = list(reader)
    columns = list(reader.fieldnames or ())
    others = [name for name in columns if name not in ("path", "split")]
    if "path" not in columns or not others or ({"label", "labels"} & set(others) and len(others) > 1):
        raise ValueError(f"directory expected a CSV file with {_FORMS}, received {str(path)!r} with the columns "
                         f"{', '.join(columns) or 'none'}.")  # fmt: skip
    needed = [name for name in columns if name != "labels"]  # an image may have no label
    broken = next((n for n, row in enumerate(rows, 1) if None in row or not all(row[name] for name in needed)), None)
    if broken or not rows:
        found = f"another number in row {broken}" if broken else "no row"
        raise ValueError(f"directory expected a value for each of the {len(columns)} columns in each row of "
                         f"{str(path)!r}, found {found}.")  # fmt: skip
    return columns, rows


def _targets(columns, rows, path) -> tuple[list[str], np.ndarray]:
    """Return the names of the classes and the targets, as in `Examples`."""
    names = [name for name in columns if name not in ("path", "split")]
    if names == ["label"]:
        labels = sorted({row["label"] for row in rows})
        return labels, np.array([labels.index(row["label"]) for row in rows])
    if names == ["labels"]:
        sets = [{name.strip() for name in (row["labels"] or "").split(SEPARATOR)} - {""} for row in rows]
        names = sorted(set().union(*sets))
        return names, np.array([[int(name in own) for name in names] for own in sets], "int64")
    wrong = next((row[name] for row in rows for name in names if row[name].strip() not in ("0", "1")), None)
    if wrong is not None:
        raise ValueError(f"directory expected 0 or 1 in the columns of labels of {str(path)!r}, received {wrong!r}.")
    return names, np.array([[int(row[name]) for name in names] for row in rows], "int64")


def _split_of(path: str) -> str:
    """Return the split of a file, from its name alone."""
    digest = hashlib.sha256(os.path.basename(path).encode("utf-8", "surrogateescape")).digest()
    return "test" if int.from_bytes(digest[:8], "big") < HELD_OUT * 2**64 else "train"
