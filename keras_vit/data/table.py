"""Read images and labels from a table: a CSV file with one row per image."""

import csv
import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples, in_memory
from keras_vit.data.folder import HELD_OUT, files_of, folder_of, is_absolute
from keras_vit.data.numbers import RESERVED, numbers_of, probabilities_of, target_columns

COLUMNS = ("path", "label", "split")
SEPARATOR = ";"  # between the labels of an image
HOT = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}  # cells of a column of 0 and 1, in small letters
_FORMS = "the columns path and label, path and labels, or path and one column of 0 and 1 for each label"


def open_table(
    split: str, file: str | None, part, left_out: tuple[str, ...] = (), kind: str = "classes",
    wanted: tuple[str, ...] = (),
) -> Examples:  # fmt: skip
    """Open one split of a table of images.

    The classes are the column `label` (one class per image), the column `labels` (several, separated by `;`), or one
    column of 0 and 1 for each label. Beside `label` or `labels`, further columns are ignored. Paths are absolute or
    relative to the table's folder. A column `split` names the split of each row. Without that column, the files whose
    names have a SHA-256 in the lowest fifth are the test split, so that an image stays in its split. Examples have a
    fixed random order.

    Args:
        split: `train`, `test`, another split of the table, or a part of one such as `train[:90%]`.
        file: path or URL of the table.
        part: a function (split, examples by split, source) that returns the name of the split and the slice of it.
        left_out: names of files that take part in the split although they may be deleted.
        kind: `classes`, `probabilities` or `numbers`, as in `Examples`.
        wanted: names of the columns of probabilities or numbers; () for all others than path, split and sha256.

    Raises:
        FileNotFoundError: the table or a file that it names does not exist.
        ValueError: the table has other columns, a value is missing or wrong, a path is repeated, or the split is
            unknown.
    """
    columns, rows = read_table(file, () if kind == "classes" else ("path", *wanted))
    if kind == "classes":
        labels, targets = _targets(columns, rows, file)
    else:
        labels = target_columns(columns, wanted, file)
        targets = (numbers_of if kind == "numbers" else probabilities_of)(rows, labels, file)
    if len(labels) < 2 and kind == "classes":
        fits = "" if "label" in columns else "; a column `label` with two classes fits"
        raise ValueError(f"directory expected at least 2 labels in {str(file)!r}, found {len(labels)}{fits}.")
    parts = {"train": [], "test": []} if "split" not in columns else {}
    for i, row in enumerate(rows):
        parts.setdefault(row["split"] if "split" in columns else _split_of(row["path"]), []).append(i)
    name, chosen = part(split, parts, f"csv {str(file)!r}")
    order = np.random.default_rng(0).permutation(parts[name])[chosen]
    files = tuple(file_of(rows[i]["path"], file) for i in order)
    known = files_of(left_out, file)
    missing = next((path for path in files if path not in known and not tf.io.gfile.exists(path)), None)
    if missing:
        raise FileNotFoundError(f"path expected files that exist, received {missing!r} in {str(file)!r}.")
    return in_memory(np.array(files), targets[order], labels, files, kind)


def file_of(path: str, table: str | os.PathLike) -> str:
    """Return the file that a path in a table means: absolute, a URL, or relative to the table's folder."""
    return path if is_absolute(path) else f"{folder_of(table)}/{path}"


def rows_to_check(file: str) -> list[tuple[str, str, str]]:
    """Return (path, split, class) of each row of a table; the class is an empty text without a column `label`."""
    columns, rows = read_table(file, ("path",), "FOLDER")
    split = (lambda row: row["split"]) if "split" in columns else lambda row: _split_of(row["path"])
    return [(file_of(row["path"], file), split(row), row.get("label") or "") for row in rows]


def read_table(
    file: str | os.PathLike | None, columns: tuple[str, ...] = (), argument: str = "directory"
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the names of a table's columns, and its rows as dicts.

    Args:
        file: path or URL of the table.
        columns: names of columns that it must have; () for any of the forms of `open_table`.
        argument: name of the argument in error messages.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the file is not UTF-8, lacks a column or a value, or repeats a path.
    """
    needed = f"the column{'s' * (len(columns) > 1)} {', '.join(columns)}" if columns else _FORMS
    if file is None or not tf.io.gfile.exists(str(file)) or tf.io.gfile.isdir(str(file)):
        advice = "; pass its path as --data-dir" if argument == "directory" else ""
        raise FileNotFoundError(f"{argument} expected a CSV file with {needed}, found none at {file!r}{advice}.")
    with tf.io.gfile.GFile(str(file), "rb") as handle:
        data = handle.read()
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError as error:
        reason = error.reason
        raise ValueError(f"{argument} expected a CSV file in UTF-8, received {str(file)!r} ({reason}).") from error
    rows, names = list(reader), list(reader.fieldnames or ())
    one_of = [name for name in ("label", "labels") if name in names]
    fits = set(columns) <= set(names) if columns else set(names) - {"path", "split"} and len(one_of) < 2
    if "path" not in names or not fits:
        raise ValueError(f"{argument} expected a CSV file with {needed}, received {str(file)!r} with the columns "
                         f"{', '.join(names) or 'none'}.")  # fmt: skip
    # An image may have no label among several.
    filled = {"path", "split", "label"} & set(names) if one_of else set(names) - {"labels"}
    filled = {"path", "split", *columns} & set(names) if columns else filled
    broken = next((n for n, row in enumerate(rows, 1) if None in row or not all(row[x] for x in filled)), None)
    if broken or not rows:
        found = f"another number in row {broken}" if broken else "no row"
        raise ValueError(f"{argument} expected a value for each of the {len(names)} columns in each row of "
                         f"{str(file)!r}, found {found}.")  # fmt: skip
    repeated = len({row["path"] for row in rows}) < len(rows)
    if repeated:
        seen = set()
        path = next(row["path"] for row in rows if row["path"] in seen or seen.add(row["path"]))
        raise ValueError(f"path expected every file once in {str(file)!r}, received {path!r} again.")
    return names, rows


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


def _targets(columns, rows, path) -> tuple[list[str], np.ndarray]:
    """Return the names of the classes and the targets, as in `Examples`."""
    if "label" in columns:
        labels = sorted({row["label"] for row in rows})
        number = {label: i for i, label in enumerate(labels)}
        return labels, np.array([number[row["label"]] for row in rows])
    return several_of(columns, rows, path)


def several_of(columns: list[str], rows: list[dict[str, str]], path) -> tuple[list[str], np.ndarray]:
    """Return the names of the labels of a table with several labels per image, and 0 or 1 for each, int64 (N, K).

    Raises:
        ValueError: a cell is neither 0 nor 1, or the column `labels` has another separator.
    """
    if "labels" in columns:
        cells = [row["labels"] or "" for row in rows]
        other = next((cell for cell in cells if "|" in cell or "," in cell), None)
        if other and not any(SEPARATOR in cell for cell in cells):
            raise ValueError(f"labels expected names separated by {SEPARATOR!r} in {str(path)!r}, received {other!r} "
                             f"and no {SEPARATOR!r} in any row.")  # fmt: skip
        sets = [{name.strip() for name in cell.split(SEPARATOR)} - {""} for cell in cells]
        names = sorted(set().union(*sets))
        return names, np.array([[int(name in own) for name in names] for own in sets], "int64")
    names = [name for name in columns if name not in RESERVED]
    wrong = next((row[name] for row in rows for name in names if row[name].strip().lower() not in HOT), None)
    if wrong is not None:
        raise ValueError(f"directory expected 0 or 1 in the columns of labels of {str(path)!r}, received {wrong!r}; "
                         "targets 'numbers' or 'probabilities' fit other values.")  # fmt: skip
    return names, np.array([[HOT[row[name].strip().lower()] for name in names] for row in rows], "int64")


def _split_of(path: str) -> str:
    """Return the split of a file, from its name alone."""
    digest = hashlib.sha256(os.path.basename(path).encode("utf-8", "surrogateescape")).digest()
    return "test" if int.from_bytes(digest[:8], "big") < HELD_OUT * 2**64 else "train"
