"""Files of weights into a model, strictly, and out of it again."""

import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keras_vit.weights.names import LAYOUTS, SAME, row_of, theirs
from keras_vit.weights.resize import resize_position_embedding

_TOP = ("pre_logits/", "head/")


@dataclass(frozen=True)
class Report:
    """What became of a file: names of the file's arrays, except `missing`, which are the model's variables."""

    source: str
    layout: str
    used: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    unused_top: list[str] = field(default_factory=list)  # a classifier in the file, none in the model

    def __str__(self):
        groups = ("resized", "missing", "left_over", "unused_top")
        parts = [
            f"{len(self.used)} arrays used",
            *(f"{g}: {', '.join(getattr(self, g))}" for g in groups if getattr(self, g)),
        ]
        return f"{self.source} ({self.layout}): {'; '.join(parts)}"


class _Npz:
    """An `.npz` file whose arrays' shapes are known without reading the arrays."""

    def __init__(self, path: Path):
        try:
            self._arrays = np.load(path, allow_pickle=False)
            with zipfile.ZipFile(path) as archive:
                self.shapes = {name.removesuffix(".npy"): _shape(archive, name) for name in archive.namelist()}
        except FileNotFoundError:
            raise FileNotFoundError(f"source expected an .npz file, found nothing at {str(path)!r}.") from None
        except (ValueError, OSError, EOFError, zipfile.BadZipFile):
            raise ValueError(f"source expected an .npz file of plain arrays, received {str(path)!r}.") from None

    def __getitem__(self, name):
        return self._arrays[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._arrays.close()


def _shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return header(member)[0]


def load_weights(model, source: str | os.PathLike, strict: bool = True) -> Report:
    """Fill a model with the weights of an official `.npz` file, released or linen layout.

    Position embeddings of another square grid are resized (corner-aligned bilinear, section 3.2). A classifier in
    the file is left out where the model has none. Nothing is changed unless everything fits.

    Args:
        model: a model of this package.
        source: path of the file.
        strict: whether variables missing from the file, or arrays left over, are an error.

    Returns:
        A report of what was used, resized, missing and left over.

    Raises:
        FileNotFoundError: nothing lies at `source`.
        ValueError: the file is no `.npz`, or does not fit; the message lists every name.
    """
    with _Npz(Path(source)) as file:
        variables = {variable.path: variable for variable in model.variables if "seed" not in variable.path}
        layout = max(LAYOUTS, key=lambda layout: len(_names(variables, layout) & file.shapes.keys()))
        plan, wrong = [], []
        report = Report(str(source), layout)
        for path, variable in variables.items():
            row, block = row_of(path)
            names = theirs(row, block, layout)
            if not all(name in file.shapes for name in names):
                report.missing.append(path)
                continue
            received = [file.shapes[name] for name in names]
            expected = _their_shapes(row.transform, variable.shape, _heads(model, path))
            if received != expected and not _resizable(path, received, expected):
                wrong.append((names[0], expected[0], received[0]))
                continue
            if received != expected:
                report.resized.extend(names)
            report.used.extend(names)
            plan.append((variable, row.transform, names))
        spare = sorted(file.shapes.keys() - _names(variables, layout))
        has_top = any(path.startswith("head/") for path in variables)
        for name in spare:
            (report.unused_top if not has_top and name.startswith(_TOP) else report.left_over).append(name)
        _raise_unless_it_fits(report, wrong, strict)
        for variable, transform, names in plan:
            array = transform.read(*(file[name] for name in names))
            if names[0] in report.resized:
                layer = model.get_layer("position_embedding")
                array = resize_position_embedding(array, layer.grid, layer.prefix_tokens)
            variable.assign(array)
    return report


def save_weights(model, path: str | os.PathLike, layout: str = "npz") -> None:
    """Write a model's weights in a published layout; the file appears whole or not at all.

    Args:
        model: a model of this package.
        path: of the `.npz` file to write.
        layout: `npz` (the released files') or `linen` (the current official code's).

    Raises:
        ValueError: the layout is unknown.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout expected one of {LAYOUTS}, received {layout!r}.")
    arrays = {}
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        row, block = row_of(variable.path)
        value = np.asarray(variable, dtype="float32")
        split = row.transform.write(value, _heads(model, variable.path))
        arrays.update(zip(theirs(row, block, layout), split, strict=True))
    path = Path(path)
    beside = path.with_name(path.name + ".partial")
    with beside.open("wb") as file:
        np.savez(file, **arrays)
    beside.replace(path)


def _names(variables, layout) -> set[str]:
    return {name for path in variables for name in theirs(*row_of(path), layout)}


def _heads(model, path: str) -> int:
    return getattr(model.get_layer(path.split("/")[0]), "num_heads", 1)


def _their_shapes(transform, shape, heads) -> list[tuple[int, ...]]:
    if transform is SAME:
        return [tuple(shape)]
    return [part.shape for part in transform.write(np.broadcast_to(np.float32(0), shape), heads)]


def _resizable(path, received, expected) -> bool:
    return path == "position_embedding/embedding" and received[0][::2] == expected[0][::2]


def _raise_unless_it_fits(report: Report, wrong: list[tuple], strict: bool) -> None:
    for name, expected, received in wrong:
        if name.startswith("head/") and expected[-1] != received[-1]:
            raise ValueError(f"classes expected {received[-1]}, as in {report.source!r}, received {expected[-1]}.")
    shapes = [f"{name} (expected {expected}, received {received})" for name, expected, received in wrong]
    problems = {"of another shape": shapes}
    if strict:
        problems |= {"missing from the file": report.missing, "left over in the file": report.left_over}
    found = [f"{what}: {', '.join(names)}" for what, names in problems.items() if names]
    if found:
        raise ValueError(f"source {report.source!r} does not fit the model; {'; '.join(found)}.")
