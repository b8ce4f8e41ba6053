"""Recognise the layout of a file, and map its arrays to variables. Only headers are read."""

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field

from keras_vit.weights.layouts import (
    ASIDE,
    BESIDE_TOWER,
    IGNORED,
    INSIDE,
    LAYOUTS,
    MAX_INDEX,
    PREFIXES,
    WRAPPERS,
    Layout,
    Place,
    find_place,
    format_name,
)
from keras_vit.weights.names import PREFIX, TABLES, options_shown
from keras_vit.weights.names_apart import APART, BESIDE
from keras_vit.weights.names_options import fused_parts
from keras_vit.weights.transforms import SAME, TRANSPOSED, Transform, zeros
from keras_vit.weights.unsupported import require_supported
from keras_vit.weights.views import plain_name, with_views
from keras_vit.weights.windows import windows_shown

_LANGUAGE_MODEL = re.compile(r"(^|[./])(llm|language_model)[./]")
# The cells of classifiers without a bias.
_WITHOUT_BIAS = [
    cell for row in APART if row.ours == "head/kernel" for cell in row.cells.values() if len(cell.names) == 1
]
_MAX_WRAPPERS = 4  # number of wrapper prefixes to try, the most frequent first


@dataclass(frozen=True)
class Entry:
    """One variable in a file.

    Args:
        names: names of its arrays; `name[3]` is one entry of a stacked array.
        shapes: shapes of its arrays.
        transform: conversion of the arrays to our variable.
        shape: shape of our variable.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    transform: Transform
    shape: tuple[int, ...]

    @property
    def heads(self) -> int | None:
        """Return the number of attention heads by the arrays' shapes; None if the shapes do not show it."""
        axis = self.transform.heads_axis
        return None if axis is None else self.shapes[0][axis]


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Args:
        source: name of the file.
        family: `vit`, `bit` or `efficientnet`.
        layout: layout of its names.
        entries: path of a variable -> its entry in the file.
        left_over: names of arrays that are not in the table of names.
        ignored: names of arrays that are no weights: optimizer state, and all integer arrays.
        aside: names of arrays of other models in the file: decoders, projectors, language models.
        periods: number of rotary frequencies that the file lists, a quarter of a head's width (DINOv3); 0 without.
    """

    source: str
    family: str
    layout: Layout
    entries: dict[str, Entry]
    left_over: list[str]
    ignored: list[str]
    aside: list[str] = field(default_factory=list)
    periods: int = 0

    @property
    def used(self) -> set[str]:
        """Names of the arrays that fill variables."""
        return {plain_name(name) for entry in self.entries.values() for name in entry.names}

    @property
    def prefix(self) -> dict[str, int]:
        """Number of tokens in front of the patches, by the names of the layers that have them."""
        shapes = {path.split("/")[0]: self.entries[path].shape for path in PREFIX if path in self.entries}
        return {layer: shape[-2] if len(shape) > 1 else 1 for layer, shape in shapes.items()}

    @property
    def depth(self) -> int:
        """Number of encoder blocks."""
        return len({path.split("/")[0] for path in self.entries if path.startswith("encoder_block_")})

    @property
    def options(self) -> dict[str, object]:
        """Fields of the row that the shapes show, by name."""
        shapes = {path: entry.shape for path, entry in self.entries.items()}
        shown = options_shown(shapes, may_lack=self.layout.name in ("timm", "keras"))
        if "in_proj." in "".join(getattr(self.entries.get("encoder_block_00/mlp/fc1/kernel"), "names", ())):
            one_bias = "encoder_block_00/attention/out/bias" not in shapes
            shown |= {"block": "parallel"} | ({"attention_out_bias": False} if one_bias else {})
        return shown | windows_shown(shapes, self.grid)

    @property
    def grid(self) -> tuple[int, int] | None:
        """(height, width) in patches of positions that the file stores as a grid (NaFlex); None for a sequence."""
        learned = self.entries.get("position_embedding/embedding")
        shape = learned.shapes[0] if learned else ()
        if len(shape) == 4:
            return shape[1], shape[2]
        sides = [self.entries.get(f"position_embedding/{name}") for name in ("down", "across")]
        factorized = self.layout.name == "timm" and all(sides)
        return (sides[0].shape[0], sides[1].shape[0]) if factorized else None

    @property
    def position_resize(self) -> str:
        """Method by which the publisher of the file resizes its position embeddings."""
        if "registers" in self.prefix:  # by Meta's, timm's and transformers' code
            return "timm"
        masked = any(name.rpartition(".")[2] == "mask_token" for name in self.aside)
        if self.layout.name == "timm" and masked and "layer_scale" in self.options:  # Meta's own files of DINOv2
            return "dinov2"
        return self.layout.position_resize

    @property
    def is_tower(self) -> bool:
        """Whether the file holds a language model, which reads all tokens of the image model."""
        return any(_LANGUAGE_MODEL.search(name) for name in self.aside)

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens in front of the patches."""
        return sum(self.prefix.values())


def read_contents(file, allow_unsupported: bool = False) -> Contents:
    """Recognise a file's layout by its names, and return its contents.

    Args:
        file: one of `keras_vit.weights.files`.
        allow_unsupported: whether the model may have unsupported parts.

    Raises:
        ValueError: the model has unsupported parts, the weights are quantized, no layout has such names, or an array
            has too few axes.
    """
    shapes = with_views(file.shapes)
    names = [*shapes, *file.integers]
    file.require_weights()
    best = max(_candidates(names), key=lambda found: len(found.places), default=None)
    if best is None or not best.places:
        require_supported(file)
        some = ", ".join(sorted(names)[:3]) or "nothing"
        raise ValueError(
            f"source expected weights of a layout among {tuple(LAYOUTS)}, received {file.source!r} with {some} ..."
        )
    entries, used = _entries(shapes, {name: place for name, place in best.places.items() if name in shapes})
    for path, (name, shape, is_matrix) in (fused_parts(file.shapes) if best.layout == "timm" else {}).items():
        transform = TRANSPOSED if is_matrix else SAME
        entries[path] = Entry((name,), (shape,), transform, transform.shape(shape))
        used.add(plain_name(name))
    if not allow_unsupported:
        require_supported(file, {plain_name(name) for name in used})
    for name in sorted(file.integers.keys() & best.places.keys()):
        raise file.refuse_dtype(name, file.integers[name])
    for path, entry in entries.items():
        if path.endswith(("/kernel", "/embedding")) and len(entry.shape) < 2:
            raise ValueError(
                f"source expected {entry.names[0]!r} to have at least two axes, received shape {entry.shapes[0]} "
                f"in {file.source!r}."
            )
    aside = {name for path in _of_other_parts(entries, best.layout, shapes) for name in entries.pop(path).names}
    used -= aside
    unused = sorted(shapes.keys() - used)
    ignored = sorted([*file.integers, *(name for name in unused if IGNORED.match(name))])
    aside |= {name for name in unused if name in best.outside or ASIDE.match(name)} - {*ignored}
    left_over = [name for name in unused if name not in aside and not IGNORED.match(name)]
    periods = next((shapes[name][0] for name in ignored if name.endswith("rope_embed.periods") and shapes[name]), 0)
    plain = lambda names: sorted(dict.fromkeys(map(plain_name, names)))  # noqa: E731
    return Contents(
        file.source, best.family, LAYOUTS[best.layout], entries, plain(left_over), ignored, plain(aside), periods
    )


@dataclass(frozen=True)
class _Candidate:
    """A way to understand the names of a file.

    Args:
        family: the family whose table has the names.
        layout: name of the column.
        places: name -> its place in the table.
        outside: names of other models in the file.
    """

    family: str
    layout: str
    places: dict[str, Place]
    outside: set[str]


def _candidates(names):
    """Yield a candidate for every known prefix of the names, family and layout."""
    inner = {name: INSIDE.sub("", name) for name in names}
    wrappers = Counter(match[0] for name in inner.values() if (match := WRAPPERS.match(name)))
    fronts = ["", *(front for front, _ in wrappers.most_common(_MAX_WRAPPERS))]
    for front, prefix in itertools.product(fronts, PREFIXES):
        start = front + prefix.theirs
        if not any(name.startswith(start) for name in inner.values()):
            continue
        renamed, outside = {}, set()
        for name, known in inner.items():
            if known.startswith(start):
                renamed[name] = prefix.ours + known.removeprefix(start)
            elif prefix.tower and not BESIDE_TOWER.match(known.removeprefix(front)):
                outside.add(name)
            else:
                renamed[name] = known.removeprefix(front) if prefix.tower else known
        for sign, pattern, instead in BESIDE:
            if any(sign.search(new) for new in renamed.values()):
                renamed = {name: pattern.sub(instead, new) for name, new in renamed.items()}
        for family in TABLES:
            for layout in LAYOUTS:
                places = {name: find_place(family, layout, new) for name, new in renamed.items()}
                yield _Candidate(family, layout, {name: place for name, place in places.items() if place}, outside)


def _of_other_parts(entries, layout: str, names) -> list[str]:
    """Return the variables that are not part of the image model: PaliGemma's projection, SigLIP's unused pooling."""
    if any(_LANGUAGE_MODEL.search(name) for name in names):
        return [path for path in entries if path.startswith("head/")]
    beside = layout == "hf" and "head/kernel" in entries  # transformers' classifiers of SigLIP average the patches
    return [path for path in entries if beside and path.startswith("pooling/")]


def _entries(shapes, places):
    """Return the entries of the complete variables, and the names of their arrays."""
    parts = {}
    for name, place in places.items():
        _, stacked, suffix = place.cell.names[place.part].partition("[")
        axis, full = int(suffix.startswith(":")), shapes[name]
        count = full[axis] if stacked and len(full) > axis else 1
        if count > MAX_INDEX:
            continue
        for i in range(count):
            indices = dict(place.indices, **({"i": i} if stacked else {}))
            _, arrays = parts.setdefault(format_name(place.row.ours, indices), (place.cell, {}))
            entry, shape = (
                (name + stacked + suffix.format(i=i), full[:axis] + full[axis + 1 :]) if stacked else (name, full)
            )
            arrays.setdefault(place.part, (name, entry, shape))
    entries, used = {}, set()
    for ours, (cell, arrays) in sorted(parts.items()):
        if ours.endswith("attention/qkv/bias") and arrays.keys() == {
            0,
            2,
        }:  # as in EVA, BEiT and DINOv3: no bias of the key
            for part, own in ((0, "query_bias"), (2, "value_bias")):
                full, name, shape = arrays[part]
                entries[ours.replace("qkv/bias", own)] = Entry((name,), (shape,), SAME, shape)
                used.add(full)
        if len(arrays) < len(cell.names):
            continue
        in_order = [arrays[part] for part in range(len(cell.names))]
        theirs = tuple(shape for _, _, shape in in_order)
        transform = cell.transform.flat if cell.transform.flat and len(theirs[0]) == 2 else cell.transform
        try:
            shape = transform.shape(*theirs)
        except (ValueError, IndexError):  # too few axes or mismatched parts: left over
            continue
        entries[ours] = Entry(tuple(name for _, name, _ in in_order), theirs, transform, shape)
        used.update(name for name, _, _ in in_order)
    if "head/kernel" in parts and parts["head/kernel"][0] in _WITHOUT_BIAS and "head/kernel" in entries:
        classes = entries["head/kernel"].shape[-1]
        entries["head/bias"] = Entry((), (), zeros(classes), (classes,))
    return entries, used
