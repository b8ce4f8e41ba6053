"""Read a table of images: a CSV file with the columns `path`, `label` and `split`."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples, in_memory
from keras_vit.data.folder import folder_of, is_absolute

COLUMNS = ("path", "label", "split")


def open_table(split: str, file: str | None, part) -> Examples:
    """Open one split of a table of images.

    Paths are absolute or relative to the table's folder. The table's other columns are ignored. The classes are the
    labels of all rows, sorted. Examples have a fixed random order.

    Args:
        split: a name of the column `split`, or a part of it such as `train[:90%]`.
        file: path or URL of the table.
        part: a function (split, examples by split, source) that returns the name of the split and the slice of it.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table lacks a column, a value or classes, repeats a path, or has no such split.
    """
    rows = read_table(file)
    labels = sorted({row["label"] for row in rows})
    if len(labels) < 2:
        found = ", ".join(labels) or "no rows"
        raise ValueError(f"directory expected a table with at least 2 labels in {str(file)!r}, found {found}.")
    number = {label: i for i, label in enumerate(labels)}
    parts = {}
    for row in rows:
        path = row["path"] if is_absolute(row["path"]) else f"{folder_of(file)}/{row['path']}"
        parts.setdefault(row["split"], []).append((path, number[row["label"]]))
    name, chosen = part(split, parts, f"table {str(file)!r}")
    order = np.random.default_rng(0).permutation(len(parts[name]))[chosen]
    files, targets = zip(*(parts[name][i] for i in order), strict=True)
    return in_memory(np.array(files), targets, labels, files)


def read_table(file: str | None, columns: tuple[str, ...] = COLUMNS) -> list[dict[str, str]]:
    """Return the rows of a table of images, each with all columns of the file, among which must be `columns`.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the file is not UTF-8, lacks a column or a value, or repeats a path.
    """
    if file is None or not tf.io.gfile.exists(str(file)) or tf.io.gfile.isdir(str(file)):
        raise FileNotFoundError(f"directory expected a CSV file with the columns {', '.join(columns)}, found none at "
                                f"{file!r}; pass its path as --data-dir.")  # fmt: skip
    with tf.io.gfile.GFile(str(file), "rb") as handle:
        data = handle.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"directory expected a CSV file in UTF-8, received {str(file)!r} ({error.reason}).") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"directory expected the columns {', '.join(columns)} in {str(file)!r}, found no "
                         f"{' and no '.join(missing)}.")  # fmt: skip
    rows, seen = list(reader), {}
    for line, row in enumerate(rows, start=2):
        empty = [name for name in columns if not row[name]]
        if empty:
            raise ValueError(f"{empty[0]} expected a value in row {line} of {str(file)!r}, received none.")
        if row["path"] in seen:
            raise ValueError(f"path expected every file once in {str(file)!r}, found {row['path']!r} in rows "
                             f"{seen[row['path']]} and {line}.")  # fmt: skip
        seen[row["path"]] = line
    return rows


def write_table(file: Path, rows: Iterable[dict[str, str]], columns: tuple[str, ...] = COLUMNS) -> None:
    """Write a table of images under a temporary name, then rename it."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    partial = file.with_name(file.name + ".partial")
    try:
        partial.write_text(text.getvalue(), encoding="utf-8")
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
