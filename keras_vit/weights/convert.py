"""Files of weights into a model: matched by name and shape first, strictly, then tensor by tensor."""

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec, keep_preprocessing
from keras_vit.weights.adapters import require_plain
from keras_vit.weights.architecture import grid_said, of_model, origin
from keras_vit.weights.contents import Contents, Entry, look
from keras_vit.weights.files import open_weights
from keras_vit.weights.fit import Target, fit, other_grid
from keras_vit.weights.image_configs import read_spec
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.layouts import OPTIONAL
from keras_vit.weights.resize import require_method
from keras_vit.weights.stated import images_note, notes_on, stated

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
    unused_top: list[str] = field(default_factory=list)  # a classifier in the file, none like it in the model
    conversions: list[str] = field(default_factory=list)  # every change to the numbers, in a sentence each
    notes: list[str] = field(default_factory=list)  # where the model computes otherwise than the file's origin

    def __str__(self):
        groups = ("resized", "missing", "left_over", "unused_top", "conversions", "notes")
        parts = [
            f"{len(self.used)} arrays used",
            *(f"{g}: {', '.join(getattr(self, g))}" for g in groups if getattr(self, g)),
        ]
        return f"{self.source} ({self.layout}): {'; '.join(parts)}"


@dataclass(frozen=True)
class _Step:
    """One variable and where its numbers come from."""

    variable: object
    layer: object
    entry: Entry
    shapes: tuple  # the file's arrays are taken in these shapes
    change: Callable[[np.ndarray], np.ndarray] | None = None


def load_weights(
    model,
    source: str | os.PathLike,
    strict: bool = True,
    *,
    position_resize: str = "official",
    source_grid: tuple[int, int] | None = None,
) -> Report:
    """Fill a model with published weights, or with your own, whatever layout they are in.

    Position embeddings of another grid, patch kernels of another size and first kernels of other channels are
    converted. A classifier of another size stays at its start, with a printed note; one in the file is left out
    where the model has none. Nothing is changed unless everything fits.

    Args:
        model: a model of this package.
        source: a tag of `list_weights()`, or the path
            of an `.npz`, `.safetensors`, `.pth`, `.pt`, `.pth.tar`, `.ckpt`, `.bin`, `.keras`, `.h5` or `.weights.h5`
            file or of a folder that holds one.
        strict: False leaves out heads, decoders and what belongs to training, starts a missing classifier anew, and
            prints both. Any other array that is missing or left over is an error whatever `strict` is.
        position_resize: `official` (corner-aligned bilinear, section 3.2), `timm` (antialiased bicubic), `timm_npz`
            (bilinear) or `hf` (bicubic).
        source_grid: (down, across) of the file's position embedding, where it is not square and no config says so.

    Returns:
        A report of what was used, converted, missing and left over.

    Raises:
        FileNotFoundError: nothing lies at `source`.
        ValueError: the file is damaged, or does not fit; the message lists every name.
    """
    return fill(model, source, strict, position_resize=position_resize, source_grid=source_grid)


def fill(model, source, strict=True, **options) -> Report:
    """Fill a model from a file; the options are those of `apply`."""
    with open_weights(source, model) as file:
        return apply(model, file, look(file), strict, **options)


def conventions_of(source: str | os.PathLike) -> dict:
    """What the code behind a file computes with: `activation`, `layer_norm_epsilon` and a stem's epsilons.

    Of a `.keras` file it is what its model computes with; empty for `.weights.h5`, which does not say.
    """
    if os.fspath(source).endswith(".weights.h5"):
        return {}
    with open_weights(source, verified=False) as file:
        contents = look(file)
        usual = origin(contents.layout, contents.family)
        said = vars(of_model(file.model)) if isinstance(file, KerasFile) else stated(file, contents)
    return {name: said.get(name, value) for name, value in usual.items()}


def require_classes(source: str | os.PathLike, classes: int) -> None:
    """Raise a ValueError unless a file's classifier, if it has one, is of so many classes."""
    if os.fspath(source).endswith((".keras", ".h5", ".hdf5")):
        return
    with open_weights(source, verified=False) as file:
        head = look(file).entries.get("head/kernel")
    if head is not None and head.shape[-1] != classes:
        raise ValueError(f"classes expected {head.shape[-1]}, as in {os.fspath(source)!r}, received {classes}.")


class Early:
    """Hands out an open file's arrays while the variables they fit as they are are being made.

    Nothing is checked here that `apply`, which must follow, checks for the whole model.
    """

    def __init__(self, file, contents: Contents):
        self.done: set[str] = set()
        self.warnings: list[str] = []
        self._file, self._contents = file, contents

    def __call__(self, path: str, shape: tuple[int, ...]) -> np.ndarray | None:
        entry = self._contents.entries.get(path)
        if entry is None or entry.shape != shape:
            return None
        self._file.forget()  # what stood in the way of the array before this one
        self._file.verify(entry.names)
        self.done.add(path)
        return _array(self._file, path, entry, entry.shapes, self.warnings)


def apply(
    model, file, contents: Contents, strict=True, position_resize="official", source_grid=None, early=None, given=()
) -> Report:
    """Fill a model, or what `early` has left of it, from an open file; see `load_weights`.

    `given` are the names of the model's fields that the caller chose.
    """
    from keras_vit.composed import flattened, weight_paths  # needs Keras

    require_method(position_resize)
    model = flattened(model)
    require_plain(model)
    said = stated(file, contents)
    variables = weight_paths(model)
    report = Report(contents.source, contents.layout.name, notes=list(file.notes))
    _require_heads(model, file, said)
    source_grid = source_grid or file.grid or grid_said(contents, said)
    steps, wrong, changed = _plan(model, variables, contents, report, position_resize, source_grid)
    has_head = any(step.variable.path.startswith("head/") for step in steps)
    spare = [entry.names for path, entry in contents.entries.items() if path not in variables]
    tops = [entry.names for path, entry in contents.entries.items() if path.startswith(_TOP)]
    for names in spare:
        top = names in tops and not has_head
        (report.unused_top if top else report.left_over).extend(names)
    report.left_over.extend(contents.left_over)
    new_top = () if strict else ("head/",) if has_head else _TOP
    _raise_unless_it_fits(report, wrong, strict, new_top)
    spec = read_spec(file, contents.layout.name)
    report.notes.extend((*notes_on(model, contents, said, given), *images_note(model, spec)))
    left = [step for step in steps if early is None or step.change or step.variable.path not in early.done]
    file.verify([name for step in left for name in step.entry.names])
    for step in steps:
        if hasattr(step.layer, "conversion"):
            step.layer.conversion = None
    for layer, sentence in changed:
        layer.conversion = sentence
    keep_preprocessing(model, spec or ImageSpec())
    suspicions = early.warnings if early else []
    for step in sorted(left, key=lambda step: [name.partition("[")[0] for name in step.entry.names]):
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
    """Steps for the variables that fit, (name, expected, received) of what does not, (layer, sentence) of changes."""
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
        found = fit(target, entry, contents)
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


def _require_heads(model, file, said: dict) -> None:
    """Raise a ValueError unless attention has the heads it has in the file, whose arrays fit any number of them."""
    if isinstance(file, KerasFile):
        from keras_vit.composed import flattened

        heads = {layer.name: getattr(layer, "num_heads", None) for layer in flattened(file.model).layers}
    else:
        blocks = (layer.name for layer in model.layers if layer.name.startswith("encoder_block_"))
        heads = dict.fromkeys(blocks, said.get("num_heads"))
    for layer in model.layers:
        mine, theirs = getattr(layer, "num_heads", None), heads.get(layer.name)
        if mine != theirs and None not in (mine, theirs):
            raise ValueError(f"num_heads expected {theirs}, as in {file.source!r}, received {mine} in {layer.name!r}.")


def _same(received, expected) -> bool:
    """Whether shapes are the same, but for axes of length one that one of both leaves out."""
    squeezed = lambda shape: [side for side in shape if side != 1]  # noqa: E731
    alike = lambda a, b: a == b or (len(a) != len(b) and squeezed(a) == squeezed(b))  # noqa: E731
    return all(alike(tuple(a), tuple(b)) for a, b in zip(received, expected, strict=True))


def _array(file, path, entry, shapes, suspicions) -> np.ndarray:
    """Our variable's array of the file's, which are taken in `shapes`."""
    parts = []
    for name, shape in zip(entry.names, shapes, strict=True):
        part = file[name]
        part = part.astype("float32") if part.dtype != np.float32 else part
        suspicions.extend(_suspicions(part, name, path))
        parts.append(part.reshape(shape))
    return entry.transform.read(*parts)


def _suspicions(array, name, path):
    """What is odd about an array's numbers, in a sentence each."""
    flat = array.reshape(-1, order="A")
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(np.dot(flat, flat))  # one pass without a copy; a sum may overflow, too
    if suspicious and not np.isfinite(flat).all():
        yield f"{name!r} holds numbers that are not finite."
    if path == "head/kernel" and not flat.any():
        yield f"{name!r} is all zeros: this classifier was never trained."


def _raise_unless_it_fits(report: Report, wrong: list[tuple], strict: bool, new_top: tuple[str, ...]) -> None:
    """Raise a ValueError unless the file has every array that the model's answers depend on, and no other."""
    shapes = [f"{name} (expected {expected}, received {received})" for name, expected, received in wrong]
    missing = [path for path in report.missing if not path.startswith(new_top)]
    left_over = [name for name in report.left_over if strict or not OPTIONAL.match(name)]
    problems = {"of another shape": shapes, "missing from the file": missing, "left over in the file": left_over}
    found = [f"{what}: {', '.join(names)}" for what, names in problems.items() if names]
    if found:
        rule = "" if strict else "; strict=False leaves out only heads, decoders and what belongs to training"
        raise ValueError(f"source {report.source!r} does not fit the model; {'; '.join(found)}{rule}.")


def _left_out(report: Report) -> list[str]:
    """Say what `strict=False` left out of a file or of a model."""
    parts = Counter(re.split(r"[./]", name)[0] for name in report.left_over)
    left = ", ".join(f"{part} ({count} arrays)" if count > 1 else part for part, count in parts.items())
    sentences = [f"left out of the file: {left}"] if left else []
    return sentences + ([f"not in the file, so started anew: {', '.join(report.missing)}"] if report.missing else [])
