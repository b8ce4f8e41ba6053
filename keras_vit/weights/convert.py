"""Load a file of weights into a model. All names and shapes are checked before any array is read."""

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec, keep_preprocessing
from keras_vit.weights.adapters import require_plain
from keras_vit.weights.architecture import architecture_of_model, grid_of_config, origin
from keras_vit.weights.contents import Contents, Entry, read_contents
from keras_vit.weights.conversions import Target, find_conversion, other_grid
from keras_vit.weights.files import open_weights
from keras_vit.weights.image_configs import read_spec
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.layouts import OPTIONAL
from keras_vit.weights.resize import require_method
from keras_vit.weights.stated import images_note, notes_on, stated

if TYPE_CHECKING:  # some commands do not import Keras
    import keras

_TOP = ("pre_logits/", "head/")


@dataclass(frozen=True)
class Report:
    """The result of loading a file, as names of its arrays. `missing` holds names of the model's variables."""

    source: str
    layout: str
    used: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    unused_top: list[str] = field(default_factory=list)  # a classifier that the model does not have
    conversions: list[str] = field(default_factory=list)  # one sentence per change to the values
    notes: list[str] = field(default_factory=list)  # differences between the model and the file's origin

    def __str__(self):
        groups = ("resized", "missing", "left_over", "unused_top", "conversions", "notes")
        parts = [
            f"{len(self.used)} arrays used",
            *(f"{g}: {', '.join(getattr(self, g))}" for g in groups if getattr(self, g)),
        ]
        return f"{self.source} ({self.layout}): {'; '.join(parts)}"


@dataclass(frozen=True)
class _Step:
    """One variable and the arrays of the file that fill it."""

    variable: object
    layer: object
    entry: Entry
    shapes: tuple  # shapes to which the file's arrays are reshaped
    change: Callable[[np.ndarray], np.ndarray] | None = None


def load_weights(
    model: "keras.Model",
    source: str | os.PathLike,
    strict: bool = True,
    *,
    position_resize: str = "official",
    source_grid: tuple[int, int] | None = None,
) -> Report:
    """Load published weights, or your own, in any layout into a model.

    Position embeddings are resized to the model's grid, patch kernels to its patch size, and first kernels to its
    number of channels. A classifier of another size keeps its initial values, with a printed note. The file's
    classifier is ignored if the model has none. The model is not changed unless everything fits.

    Args:
        model: a model of this package.
        source: a tag of `list_weights()`, a folder, or the path of an `.npz`, `.safetensors`, `.pth`, `.pt`,
            `.pth.tar`, `.ckpt`, `.bin`, `.keras`, `.h5` or `.weights.h5` file.
        strict: False ignores heads, decoders and training state in the file, initialises a missing classifier, and
            prints both. Any other missing or extra array is an error in both cases.
        position_resize: `official` (corner-aligned bilinear, section 3.2), `timm` (antialiased bicubic), `timm_npz`
            (bilinear) or `hf` (bicubic).
        source_grid: (height, width) of the file's position embedding in patches, if it is not square and no config
            states it.

    Returns:
        A report of the used, converted, missing and extra arrays.

    Raises:
        FileNotFoundError: `source` does not exist.
        ValueError: the file is damaged or does not fit; the message lists every name.
    """
    return fill(model, source, strict, position_resize=position_resize, source_grid=source_grid)


def fill(model, source, strict=True, **options) -> Report:
    """Load a file into a model. `options` are arguments of `apply`."""
    with open_weights(source, model) as file:
        return apply(model, file, read_contents(file), strict, **options)


def conventions_of(source: str | os.PathLike) -> dict:
    """Return the activation and the epsilons that a file's origin uses, as fields of `Architecture`.

    A `.keras` file's model states them. The result is empty for `.weights.h5`, which does not state them.
    """
    if os.fspath(source).endswith(".weights.h5"):
        return {}
    with open_weights(source, verified=False) as file:
        contents = read_contents(file)
        usual = origin(contents.layout, contents.family)
        fields = vars(architecture_of_model(file.model)) if isinstance(file, KerasFile) else stated(file, contents)
    return {name: fields.get(name, value) for name, value in usual.items()}


def require_classes(source: str | os.PathLike, classes: int) -> None:
    """Raise a ValueError if a file has a classifier with another number of classes."""
    if os.fspath(source).endswith((".keras", ".h5", ".hdf5")):
        return
    with open_weights(source, verified=False) as file:
        head = read_contents(file).entries.get("head/kernel")
    if head is not None and head.shape[-1] != classes:
        raise ValueError(f"classes expected {head.shape[-1]}, as in {os.fspath(source)!r}, received {classes}.")


class Early:
    """Return an open file's arrays as initial values of variables of the same shape; see `use_initial_values`.

    `apply` must be called afterwards. It checks the whole model.
    """

    def __init__(self, file, contents: Contents):
        self.done: set[str] = set()
        self.warnings: list[str] = []
        self._file, self._contents = file, contents

    def __call__(self, path: str, shape: tuple[int, ...]) -> np.ndarray | None:
        entry = self._contents.entries.get(path)
        if entry is None or entry.shape != shape:
            return None
        self._file.forget()  # releases the memory of earlier arrays
        self._file.verify(entry.names)
        self.done.add(path)
        return _array(self._file, path, entry, entry.shapes, self.warnings)


def apply(
    model, file, contents: Contents, strict=True, position_resize="official", source_grid=None, early=None, given=()
) -> Report:
    """Load an open file into a model; see `load_weights`.

    Args:
        model: the model.
        file: one of `keras_vit.weights.files`.
        contents: the file's contents.
        strict: as in `load_weights`.
        position_resize: as in `load_weights`.
        source_grid: as in `load_weights`.
        early: the `Early` that has initialised some variables already; None without one.
        given: names of the fields of `Architecture` that the caller chose.
    """
    from keras_vit.composed import flattened, weight_paths  # imports Keras

    require_method(position_resize)
    model = flattened(model)
    require_plain(model)
    fields = stated(file, contents)
    variables = weight_paths(model)
    report = Report(contents.source, contents.layout.name, notes=list(file.notes))
    _require_heads(model, file, fields)
    source_grid = source_grid or file.grid or grid_of_config(contents, fields)
    steps, wrong, changed = _plan(model, variables, contents, report, position_resize, source_grid)
    has_head = any(step.variable.path.startswith("head/") for step in steps)
    unused = [entry.names for path, entry in contents.entries.items() if path not in variables]
    tops = [entry.names for path, entry in contents.entries.items() if path.startswith(_TOP)]
    for names in unused:
        top = names in tops and not has_head
        (report.unused_top if top else report.left_over).extend(names)
    report.left_over.extend(contents.left_over)
    new_top = () if strict else ("head/",) if has_head else _TOP
    _raise_unless_it_fits(report, wrong, strict, new_top)
    spec = read_spec(file, contents.layout.name)
    report.notes.extend((*notes_on(model, contents, fields, given), *images_note(model, spec)))
    remaining = [step for step in steps if early is None or step.change or step.variable.path not in early.done]
    file.verify([name for step in remaining for name in step.entry.names])
    for step in steps:
        if hasattr(step.layer, "conversion"):
            step.layer.conversion = None
    for layer, sentence in changed:
        layer.conversion = sentence
    keep_preprocessing(model, spec or ImageSpec())
    suspicions = early.warnings if early else []
    for step in sorted(remaining, key=lambda step: [name.partition("[")[0] for name in step.entry.names]):
        array = _array(file, step.variable.path, step.entry, step.shapes, suspicions)
        step.variable.assign(step.change(array) if step.change else array)
        file.forget()
    for sentence in suspicions:
        warnings.warn(f"{report.source}: {sentence}", stacklevel=3)
    report.used.extend(name for step in steps for name in step.entry.names)
    for sentence in (*report.conversions, *_left_out(report), *report.notes):
        print(f"{report.source}: {sentence}", file=sys.stderr)
    return report


def _plan(model, variables, contents, report, position_resize, source_grid):
    """Return steps for fitting variables, (name, expected, received) of misfits, and (layer, sentence) of changes."""
    steps, wrong, changed = [], [], []
    for path, variable in variables.items():
        entry = contents.entries.get(path)
        if entry is None:
            report.missing.append(path)
            continue
        layer = model.get_layer(path.split("/")[0])
        heads = getattr(layer, "num_heads", 1)
        expected = tuple(entry.transform.shapes(tuple(variable.shape), heads))
        target = Target(path, tuple(variable.shape), layer, position_resize, source_grid)
        if _same(entry.shapes, expected) and not other_grid(target, entry, contents):
            steps.append(_Step(variable, layer, entry, expected))
            continue
        found = find_conversion(target, entry, contents)
        if found is None:
            wrong += [
                (name, theirs, received)
                for name, theirs, received in zip(entry.names, expected, entry.shapes, strict=True)
                if theirs != received
            ]
            continue
        change, sentence = found
        changed.append((layer, sentence))
        if sentence not in report.conversions:
            report.conversions.append(sentence)
        if change is None:
            report.unused_top.extend(entry.names)
        else:
            report.resized.extend(entry.names)
            steps.append(_Step(variable, layer, entry, entry.shapes, change))
    return steps, wrong, changed


def _require_heads(model, file, fields: dict) -> None:
    """Raise a ValueError if the number of heads differs from the file's. Shapes alone do not show it."""
    if isinstance(file, KerasFile):
        from keras_vit.composed import flattened

        heads = {layer.name: getattr(layer, "num_heads", None) for layer in flattened(file.model).layers}
    else:
        blocks = (layer.name for layer in model.layers if layer.name.startswith("encoder_block_"))
        heads = dict.fromkeys(blocks, fields.get("num_heads"))
    for layer in model.layers:
        mine, theirs = getattr(layer, "num_heads", None), heads.get(layer.name)
        if mine != theirs and None not in (mine, theirs):
            raise ValueError(f"num_heads expected {theirs}, as in {file.source!r}, received {mine} in {layer.name!r}.")


def _same(received, expected) -> bool:
    """Return whether shapes are equal, ignoring axes of length 1 if the ranks differ."""
    squeezed = lambda shape: [side for side in shape if side != 1]  # noqa: E731
    alike = lambda a, b: a == b or (len(a) != len(b) and squeezed(a) == squeezed(b))  # noqa: E731
    return all(alike(tuple(a), tuple(b)) for a, b in zip(received, expected, strict=True))


def _array(file, path, entry, shapes, suspicions) -> np.ndarray:
    """Read a variable's value from the file's arrays, reshaped to `shapes`."""
    parts = []
    for name, shape in zip(entry.names, shapes, strict=True):
        part = file[name]
        part = part.astype("float32") if part.dtype != np.float32 else part
        suspicions.extend(_suspicions(part, name, path))
        parts.append(part.reshape(shape))
    return entry.transform.read(*parts)


def _suspicions(array, name, path):
    """Yield a sentence for each suspicious property of an array."""
    flat = array.reshape(-1, order="A")
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(np.dot(flat, flat))  # one pass without a copy; finite values can overflow, too
    if suspicious and not np.isfinite(flat).all():
        yield f"{name!r} holds values that are not finite."
    if path == "head/kernel" and not flat.any():
        yield f"{name!r} is all zeros: this classifier was never trained."


def _raise_unless_it_fits(report: Report, wrong: list[tuple], strict: bool, new_top: tuple[str, ...]) -> None:
    """Raise a ValueError if arrays have another shape, are missing or are left over."""
    shapes = [f"{name} (expected {expected}, received {received})" for name, expected, received in wrong]
    missing = [path for path in report.missing if not path.startswith(new_top)]
    left_over = [name for name in report.left_over if strict or not OPTIONAL.match(name)]
    problems = {"of another shape": shapes, "missing from the file": missing, "left over in the file": left_over}
    found = [f"{what}: {', '.join(names)}" for what, names in problems.items() if names]
    if found:
        rule = "" if strict else "; strict=False leaves out only heads, decoders and what belongs to training"
        raise ValueError(f"source {report.source!r} does not fit the model; {'; '.join(found)}{rule}.")


def _left_out(report: Report) -> list[str]:
    """Return sentences about what `strict=False` ignored in the file and in the model."""
    parts = Counter(re.split(r"[./]", name)[0] for name in report.left_over)
    left = ", ".join(f"{part} ({count} arrays)" if count > 1 else part for part, count in parts.items())
    sentences = [f"left out of the file: {left}"] if left else []
    return sentences + ([f"not in the file, so started anew: {', '.join(report.missing)}"] if report.missing else [])
