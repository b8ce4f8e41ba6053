"""Define the rows of the table of names: a variable of this package, and its names in each layout."""

from dataclasses import dataclass, field

from keras_vit.weights.transforms import SAME, Transform


@dataclass(frozen=True)
class Cell:
    """The names of one variable in one layout, and the transform between their arrays and the variable."""

    names: tuple[str, ...]
    transform: Transform = SAME


@dataclass(frozen=True)
class Row:
    """One of our variables, with its cell in each layout that has it."""

    ours: str
    cells: dict[str, Cell] = field(default_factory=dict)


def make_row(ours: str, **cells) -> Row:
    """Make a row from cells that are a name or (name, transform).

    The default of linen is npz's cell. big_vision's stacked name follows from linen's.
    """
    cells.setdefault("linen", cells["npz"])
    cells = {layout: cell if isinstance(cell, tuple) else (cell, SAME) for layout, cell in cells.items()}
    name, transform = cells["linen"]
    if "encoderblock_{i}/" in name:
        name = name.replace("encoderblock_{i}/", "encoderblock/") + "[{i}]"
    cells.setdefault("big_vision", (name, transform))
    return row_of_cells(ours, cells)


def row_of_cells(ours, cells) -> Row:
    parts = {layout: (_parts(name), transform) for layout, (name, transform) in cells.items()}
    parts["keras"] = ((ours,), SAME)
    return Row(ours, {layout: Cell(*cell) for layout, cell in parts.items()})


def _parts(name: str) -> tuple[str, ...]:
    for wildcard, parts in (("*", ("query", "key", "value")), ("?", ("q", "k", "v")), ("&", ("key", "value"))):
        if wildcard in name:
            return tuple(name.replace(wildcard, part) for part in parts)
    return (name,)
