"""Print tables that fit the terminal."""

import shutil
import sys
import textwrap

from keras_vit.terminal import on_terminal

NARROWEST = 20  # characters of a wrapped last column


def terminal_width() -> int | None:
    """Return the width of the terminal of the standard output in characters; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if on_terminal(sys.stdout) else None


def table_lines(rows, right=(), width: int | None = None) -> list[str]:
    """Return the lines of a table, whose last column is wrapped below itself where it exceeds the width.

    Args:
        rows: rows of cells (text), each with the same number of cells.
        right: indices of the columns that are aligned to the right.
        width: greatest length of a line; None for any.
    """
    rows = [tuple(map(str, row)) for row in rows]
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    start = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = None if width is None or start + widths[-1] <= width else max(width - start, NARROWEST)
    lines = []
    for row in rows:
        *cells, last = (cell.rjust(size) if i in right else cell.ljust(size)
                        for i, (cell, size) in enumerate(zip(row, widths, strict=True)))  # fmt: skip
        first, *further = (textwrap.wrap(last, room) if room else None) or [last]
        lines.append("  ".join([*cells, first]).rstrip())
        lines += [" " * start + line for line in further]
    return lines
