"""Read from a CSV table what it states for an image, where no option says it."""

from dataclasses import replace

import numpy as np

from keras_vit.cli.table_options import CLASSES, TableTargets

MOST_CLASSES = 20  # different whole numbers that are classes however rare they are
FEWEST_IMAGES = 10  # mean number of images per whole number, below which more numbers are values
SHOWN = 5  # names of columns


def targets_of(file: str, argument: str) -> TableTargets:
    """Return what a table states, with a sentence that says why where the table could mean something else.

    A column `label` has classes, or values if a cell is no whole number, or if there are more than 20 different ones
    with fewer than 10 images each on average. A column `labels` has several labels per image. Without both, all other
    columns are labels (0 and 1), probabilities (sums of 1) or values.

    Args:
        file: path of the table.
        argument: name of the argument in error messages.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the other columns are none of these.
    """
    from keras_vit.data.numbers import RESERVED
    from keras_vit.data.table import HOT, read_table

    columns, rows = read_table(file, ("path",), argument)
    if "label" in columns:
        return _of_label([row["label"] or "" for row in rows])
    if "labels" in columns:
        return TableTargets("several", ("labels",), note="the column labels has several labels per image")
    names = tuple(name for name in columns if name not in RESERVED)
    cells = [[(row[name] or "").strip() for name in names] for row in rows]
    if len(names) > 1 and all(cell.lower() in HOT for row in cells for cell in row):
        return TableTargets("several", names, note="the columns of 0 and 1 are several labels per image")
    values = np.array([[_number(cell) for cell in row] for row in cells]).reshape(len(rows), len(names))
    numbers = [name for name, column in zip(names, values.T, strict=True) if np.isfinite(column).all()]
    if not names or len(numbers) < len(names) or (len(names) == 1 and set(values.flat) <= {0.0, 1.0}):
        raise ValueError(_unclear(file, argument, columns, numbers))
    listed = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
    if len(names) > 1 and _are_probabilities(values):
        note = f"the columns {listed} sum to 1, so they are probabilities of classes; --numbers {','.join(names)} fits "
        return TableTargets("probabilities", names, note=f"{note}a regression")
    have = f"columns {listed} have" if len(names) > 1 else f"column {listed} has"
    return TableTargets("numbers", names, note=f"the {have} numbers, so the model is a regression")


def _of_label(cells: list[str]) -> TableTargets:
    """Return what the cells of a column `label` are: classes or values."""
    distinct = sorted(set(cells), key=_number)
    numbers = [_number(cell) for cell in distinct]
    if not all(np.isfinite(numbers)):
        joined = next((cell for cell in distinct if ";" in cell), None)
        note = f"{joined!r} is read as one class; a column named labels has several labels per image, separated by ;"
        return replace(CLASSES, note=note) if joined else CLASSES
    many = len(distinct) > max(MOST_CLASSES, len(cells) / FEWEST_IMAGES)
    if many or any(number % 1 for number in numbers):
        note = f"the column label has {len(distinct):,} different numbers, so the model is a regression"
        return TableTargets("numbers", ("label",), note=f"{note}; --order with all of them fits ordered classes")
    if len(distinct) == 2:
        return CLASSES
    order = ",".join(distinct) if len(distinct) <= SHOWN else "NAMES"
    return replace(CLASSES, note=f"the numbers are classes; --order {order} fits ordered ones, --numbers label values")


def _number(cell: str) -> float:
    """Return the number of a cell; NaN for other text."""
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _are_probabilities(values) -> bool:
    from keras_vit.data.numbers import ROUNDING

    sums = values.sum(axis=1)
    return bool((values >= 0).all() and (values <= 1).all() and (np.abs(sums - 1) <= ROUNDING + 1e-6).all())


def _unclear(file: str, argument: str, columns: list[str], numbers: list[str]) -> str:
    """Return the sentence about a table whose columns are no targets as they are."""
    advice = f"; --numbers {','.join(numbers[:SHOWN])} fits a regression" if numbers else ""
    return (f"{argument} expected a CSV file with a column label (one class per image), labels (several, separated by "
            f"';') or one column of 0 and 1 for each label, received {file!r} with the columns {', '.join(columns)}"
            f"{advice}.")  # fmt: skip
