"""Read columns of numbers from a table: probabilities of classes, or the targets of a regression.

N images, K columns.
"""

import math

import numpy as np

RESERVED = ("path", "split", "sha256")  # columns that never are targets
ROUNDING = 0.01  # largest difference of a row's probabilities from 1


def target_columns(names: list[str], wanted: tuple[str, ...], file, argument: str = "columns") -> tuple[str, ...]:
    """Return the columns of the targets of a table: the wanted ones, or all that are not reserved.

    Raises:
        ValueError: the table lacks a wanted column, or has no other than the reserved ones.
    """
    others = tuple(name for name in names if name not in RESERVED)
    unknown = [name for name in wanted if name not in others]
    if unknown or not others:
        found = f"with the columns {', '.join(others)}" if others else "without columns beside path"
        raise ValueError(f"{argument} expected columns of {str(file)!r}, which is {found}, received "
                         f"{', '.join(unknown) or 'none'}.")  # fmt: skip
    return wanted or others


def numbers_of(rows: list[dict[str, str]], columns: tuple[str, ...], file) -> np.ndarray:
    """Return the numbers of some columns, float32 (N, K).

    Raises:
        ValueError: a cell is no finite number.
    """
    values = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, name in enumerate(columns):
            text = row[name] or ""
            try:
                values[i, j] = float(text)
            except ValueError:
                values[i, j] = math.nan
            if not math.isfinite(values[i, j]):
                words = not any(letter.isdigit() for row in rows for letter in row[name] or "")
                advice = "names are classes, which need no option" if words else "leave out such images"
                raise ValueError(f"column {name!r} of {str(file)!r} expected a number in each row, received {text!r} "
                                 f"in row {i + 1}; {advice}.")  # fmt: skip
    return values.astype("float32")


def probabilities_of(rows: list[dict[str, str]], columns: tuple[str, ...], file) -> np.ndarray:
    """Return a probability for each class, float32 (N, K). Each row is divided by its sum, which rounding may change.

    Raises:
        ValueError: there are fewer than two classes, a number is not in [0, 1], or a row does not sum to 1.
    """
    if len(columns) < 2:
        raise ValueError(f"targets 'probabilities' expected a column for each of 2 classes or more in {str(file)!r}, "
                         f"found {', '.join(columns)}.")  # fmt: skip
    values = numbers_of(rows, columns, file)
    sums = values.sum(axis=1)
    wrong = np.flatnonzero((values < 0).any(axis=1) | (values > 1).any(axis=1) | (np.abs(sums - 1) > ROUNDING + 1e-6))
    if len(wrong):
        i = wrong[0]
        raise ValueError(f"targets 'probabilities' expected numbers in [0, 1] that sum to 1 in each row of "
                         f"{str(file)!r}, received {', '.join(f'{x:g}' for x in values[i])} with the sum {sums[i]:g} "
                         f"in row {i + 1}; targets 'numbers' fit values of a regression.")  # fmt: skip
    return values / sums[:, None]
