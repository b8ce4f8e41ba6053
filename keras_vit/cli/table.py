"""Print tables that fit the terminal."""

import shutil
import sys
import textwrap

from keras_vit.terminal import on_terminal

NARROWEST = 16  # characters of a wrapped last column


def terminal_width() -> int | None:
    """Return the width of the terminal of the standard output in characters; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if on_terminal(sys.stdout) else None


def table_lines(rows, right=(), width: int | None = None, wrapped: int = -1, names=()) -> list[str]:
    """Return the lines of a table.

    Where the table is wider than `width`, one column is wrapped below itself. Where this does not suffice, each row
    becomes lines of `name: cell`.

    Args:
        rows: rows of cells (text), each with the same number of cells.
        right: indices of the columns that are aligned to the right.
        width: greatest length of a line; None for any.
        wrapped: index of the column to wrap.
        names: names of the columns; without them no row becomes lines.
    """
    rows = [tuple(map(str, row)) for row in rows]
    if not rows:
        return []
    wrapped %= len(rows[0])
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    others = sum(sizes) - sizes[wrapped] + 2 * (len(sizes) - 1)
    if width is not None and others + sizes[wrapped] > width:
        if names and others + min(sizes[wrapped], NARROWEST) > width:
            return [line for row in rows if row != names for line in _record(names, row)]
        sizes[wrapped] = min(sizes[wrapped], max(width - others, NARROWEST))
    return [line for row in rows for line in _wrapped_lines(row, sizes, right, wrapped)]


def _wrapped_lines(row, sizes, right, wrapped) -> list[str]:
    text, size = row[wrapped], sizes[wrapped]
    parts = [text] if len(text) <= size else textwrap.wrap(text, size)
    lines = []
    for number, part in enumerate(parts):
        cells = ["" if number else cell for cell in row]
        cells[wrapped] = part
        aligned = (cell.rjust(size) if i in right else cell.ljust(size)
                   for i, (cell, size) in enumerate(zip(cells, sizes, strict=True)))  # fmt: skip
        lines.append("  ".join(aligned).rstrip())
    return lines


def _record(names, row) -> list[str]:
    return [f"{name}: {cell}" for name, cell in zip(names, row, strict=True) if cell] + [""]
