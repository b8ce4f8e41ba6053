"""A file seen through the table of names: which variables of ours it holds, in which layout. Reads no data."""

import itertools
from collections import Counter
from dataclasses import dataclass

from keras_vit.weights.layouts import IGNORED, INSIDE, LAYOUTS, MOST, PREFIXES, WRAPPERS, Layout, fill, find_place
from keras_vit.weights.names import PREFIX, TABLES
from keras_vit.weights.transforms import Transform
from keras_vit.weights.unsupported import require_supported

_MOST_WRAPPERS = 4  # that are tried, the most frequent ones of a file


@dataclass(frozen=True)
class Entry:
    """One variable of ours in a file.

    Args:
        names: the arrays it is made of; `name[3]` is one entry of a stacked array.
        shapes: theirs.
        transform: makes ours of them.
        shape: ours.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    transform: Transform
    shape: tuple[int, ...]

    @property
    def heads(self) -> int | None:
        """The attention heads these arrays are split in, None where they do not say."""
        axis = self.transform.heads_axis
        return None if axis is None else self.shapes[0][axis]


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Args:
        source: what the file is called.
        family: `vit` or `bit`.
        layout: whose names it uses.
        entries: our path -> where it is in the file.
        left_over: arrays that the table has no place for.
        ignored: arrays beside the weights: an optimiser's, and every array of integers.
    """

    source: str
    family: str
    layout: Layout
    entries: dict[str, Entry]
    left_over: list[str]
    ignored: list[str]

    @property
    def prefix(self) -> dict[str, int]:
        """Number of tokens in front of the patches, by the names of the layers that have them."""
        shapes = {path.split("/")[0]: self.entries[path].shape for path in PREFIX if path in self.entries}
        return {layer: shape[-2] if len(shape) > 1 else 1 for layer, shape in shapes.items()}

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens in front of the patches."""
        return sum(self.prefix.values())


def look(file, strange: bool = False) -> Contents:
    """Recognise a file's layout by its names.

    Args:
        file: one of `keras_vit.weights.files`.
        strange: whether the model may have parts that this package does not have.

    Raises:
        ValueError: the model has such parts, the weights are quantized, no layout knows the names, or an array has too
            few axes.
    """
    if not strange:
        require_supported(file)
    names = [*file.shapes, *file.integers]
    file.require_weights()
    best = max(_candidates(names), key=lambda found: len(found[2]), default=None)
    if not best or not best[2]:
        require_supported(file)
        some = ", ".join(sorted(names)[:3]) or "nothing"
        raise ValueError(
            f"source expected weights of a layout among {tuple(LAYOUTS)}, received {file.source!r} with {some} ..."
        )
    family, layout, places = best
    for name in sorted(file.integers.keys() & places.keys()):
        raise file.refuse_dtype(name, file.integers[name])
    entries, used = _entries(file.shapes, places)
    for path, entry in entries.items():
        if path.endswith(("/kernel", "/embedding")) and len(entry.shape) < 2:
            raise ValueError(
                f"source expected {entry.names[0]!r} to have at least two axes, received shape {entry.shapes[0]} "
                f"in {file.source!r}."
            )
    spare = sorted(file.shapes.keys() - used)
    ignored = sorted([*file.integers, *(name for name in spare if IGNORED.match(name))])
    left_over = [name for name in spare if not IGNORED.match(name)]
    return Contents(file.source, family, LAYOUTS[layout], entries, left_over, ignored)


def _candidates(names):
    """Every family, layout and prefix with the places it finds for a file's names."""
    inner = {name: INSIDE.sub("", name) for name in names}
    wrappers = Counter(match[0] for name in inner.values() if (match := WRAPPERS.match(name)))
    fronts = ["", *(front for front, _ in wrappers.most_common(_MOST_WRAPPERS))]
    for front, (theirs, canonical) in itertools.product(fronts, PREFIXES):
        start = front + theirs
        if not any(name.startswith(start) for name in inner.values()):
            continue
        renamed = {
            name: canonical + known.removeprefix(start) if known.startswith(start) else known
            for name, known in inner.items()
        }
        for family in TABLES:
            for layout in LAYOUTS:
                places = {name: find_place(family, layout, new) for name, new in renamed.items()}
                yield family, layout, {name: place for name, place in places.items() if place}


def _entries(shapes, places):
    """Entries of the variables that are there with all their parts, and the names they use."""
    parts = {}
    for name, place in places.items():
        stacked = place.cell.names[place.part].endswith("[{i}]")
        if stacked and shapes[name] and shapes[name][0] > MOST:
            continue
        for i in range(shapes[name][0] if stacked and shapes[name] else 1):
            indices = dict(place.indices, **({"i": i} if stacked else {}))
            found = parts.setdefault(fill(place.row.ours, indices), (place.cell, {}))
            suffix, shape = (f"[{i}]", shapes[name][1:]) if stacked else ("", shapes[name])
            found[1].setdefault(place.part, (name, name + suffix, shape))
    entries, used = {}, set()
    for ours, (cell, found) in sorted(parts.items()):
        if len(found) < len(cell.names):
            continue
        in_order = [found[part] for part in range(len(cell.names))]
        theirs = tuple(shape for _, _, shape in in_order)
        try:
            shape = cell.transform.shape(*theirs)
        except (ValueError, IndexError):  # too few axes, or parts that do not go together: left over
            continue
        entries[ours] = Entry(tuple(name for _, name, _ in in_order), theirs, cell.transform, shape)
        used.update(name for name, _, _ in in_order)
    return entries, used
