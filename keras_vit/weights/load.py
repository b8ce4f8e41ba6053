"""Load a file of weights into a model. All names and shapes are checked before any array is read."""

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec, store_preprocessing
from keras_vit.weights.adapters import require_plain
from keras_vit.weights.architecture import grid_of_config
from keras_vit.weights.config_fields import config_fields
from keras_vit.weights.contents import Contents, Entry, read_contents
from keras_vit.weights.conversions import Target, find_conversion, other_grid
from keras_vit.weights.files import open_weights
from keras_vit.weights.image_configs import METAS_SAM, read_spec
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.notes import difference_notes, preprocessing_notes, record_source
from keras_vit.weights.report import Report
from keras_vit.weights.resize import require_method
from keras_vit.weights.transforms import heads_of
from keras_vit.weights.windows import is_metas

if TYPE_CHECKING:  # some commands do not import Keras
    import keras

_TOP = ("pre_logits/", "head/")


def load_weights(
    model: "keras.Model",
    source: str | os.PathLike,
    strict: bool = True,
    *,
    position_resize: str | None = None,
    source_grid: tuple[int, int] | None = None,
) -> Report:
    """Load published weights, or your own, in any layout into a model.

    Position embeddings are resized to the model's grid, patch kernels to its patch size, and first kernels to its
    number of channels. A classifier of another size keeps its initial values, with a printed note. The file's
    classifier is ignored if the model has none. The model is not changed unless everything fits.

    Args:
        model: a model of this package.
        source: a tag of `list_weights()`, `hf://ORG/NAME`, a folder, or the path of an `.npz`, `.safetensors`, `.pth`,
            `.pt`, `.pth.tar`, `.ckpt`, `.bin`, `.keras`, `.h5` or `.weights.h5` file.
        strict: False ignores heads and training state in the file, initialises a missing classifier, and prints both.
            Any other missing or extra array is an error in both cases, except decoders, projectors and language
            models of pre-training, which are always left out and printed.
        position_resize: `official` (corner-aligned bilinear, section 3.2), `timm` (antialiased bicubic), `timm_npz`
            (bilinear), `hf` (bicubic), `dinov2` (bicubic of a grid 0.1 cells larger, as in Meta's code) or `siglip2`
            (antialiased bilinear). `official_square`, `timm_square` and `timm_npz_square` resize to a square of the
            longer side and crop it (NaFlex). None for the method of the file's publisher; it is `official` for
            `.keras` and `.h5` files.
        source_grid: (height, width) of the file's position embedding in patches, if it is not square and no config
            states it.

    Returns:
        A report of the used, converted, missing and extra arrays.

    Raises:
        FileNotFoundError: `source` does not exist.
        ValueError: the file is damaged or does not fit; the message lists every name.
    """
    return load_file(model, source, strict, position_resize=position_resize, source_grid=source_grid)


def load_file(model, source, strict=True, **options) -> Report:
    """Load a file into a model. `options` are arguments of `load_open_file`."""
    with open_weights(source, model) as file:
        report = load_open_file(model, file, read_contents(file), strict, **options)
    record_source(model, source)
    return report


@dataclass(frozen=True)
class _Step:
    """One variable and the arrays of the file that fill it."""

    variable: object
    layer: object
    entry: Entry
    shapes: tuple  # shapes to which the file's arrays are reshaped
    change: Callable[[np.ndarray], np.ndarray] | None = None


class InitialWeights:
    """Initialise variables with an open file's arrays of the same shape; see `use_initial_values`.

    `load_open_file` must be called afterwards. It checks the whole model.
    """

    def __init__(self, file, contents: Contents):
        self.done: set[str] = set()
        self.warnings: list[str] = []
        self._file, self._contents = file, contents

    def __call__(self, path: str, shape: tuple[int, ...]) -> np.ndarray | None:
        entry = self._contents.entries.get(path)
        if entry is None or entry.shape != shape:
            return None
        self._file.release_memory()
        self._file.verify(entry.names)
        self.done.add(path)
        return _read_value(self._file, path, entry, entry.shapes, self.warnings)


def load_open_file(
    model, file, contents: Contents, strict=True, position_resize=None, source_grid=None, initial=None, chosen=()
) -> Report:
    """Load an open file into a model; see `load_weights`.

    Args:
        model: the model.
        file: one of `keras_vit.weights.files`.
        contents: the file's contents.
        strict: as in `load_weights`.
        position_resize: as in `load_weights`.
        source_grid: as in `load_weights`.
        initial: the `InitialWeights` that have initialised some variables already; None without them.
        chosen: names of the fields of `Architecture` that the caller chose.
    """
    from keras_vit.composed import flattened, weight_paths  # imports Keras

    require_method(position_resize)
    model = flattened(model)
    require_plain(model)
    fields = config_fields(file, contents)
    variables = weight_paths(model)
    report = Report(contents.source, contents.layout.name, notes=list(file.notes))
    _require_heads(model, file, fields)
    _require_positions(model, contents)
    source_grid = source_grid or file.grid or grid_of_config(contents, fields)
    method = position_resize or fields.get("position_resize") or contents.position_resize
    publishers = _stored_method(file) or method
    steps, misfits, changed = _plan(model, variables, contents, report, method, source_grid)
    has_head = any(step.variable.path.startswith("head/") for step in steps)
    for path, entry in contents.entries.items():
        if path not in variables:
            unused = report.unused_top if path.startswith(_TOP) and not has_head else report.left_over
            unused.extend(entry.names)
    report.left_over.extend(contents.left_over)
    report.aside.extend(contents.aside)
    report.require_fit(misfits, strict, () if strict else ("head/",) if has_head else _TOP)
    spec = read_spec(file, contents.layout.name) or (METAS_SAM if is_metas(contents) else None)
    report.notes.extend((*difference_notes(model, contents, fields, chosen), *preprocessing_notes(model, spec)))
    remaining = [step for step in steps if initial is None or step.change or step.variable.path not in initial.done]
    file.verify([name for step in remaining for name in step.entry.names])
    for step in steps:
        if hasattr(step.layer, "conversion"):
            step.layer.conversion = None
        if hasattr(step.layer, "resize"):
            step.layer.resize = publishers
    for layer, sentence in changed:
        layer.conversion = sentence
    store_preprocessing(model, spec or ImageSpec())
    suspicions = initial.warnings if initial else []
    for step in sorted(remaining, key=lambda step: [name.partition("[")[0] for name in step.entry.names]):
        array = _read_value(file, step.variable.path, step.entry, step.shapes, suspicions)
        step.variable.assign(step.change(array) if step.change else array)
        file.release_memory()
    for sentence in suspicions:
        warnings.warn(f"{report.source}: {sentence}", stacklevel=3)
    report.used.extend(name for step in steps for name in step.entry.names)
    for sentence in report.sentences:
        print(f"{report.source}: {sentence}", file=sys.stderr)
    return report


def _plan(model, variables, contents, report, position_resize, source_grid):
    """Compare the variables with the file, and return what to load.

    Returns:
        The steps for the variables that fit; (name, expected, received) of the arrays that do not; (layer, sentence) of
        the conversions.
    """
    steps, misfits, changed = [], [], []
    for path, variable in variables.items():
        entry = contents.entries.get(path)
        if entry is None:
            report.missing.append(path)
            continue
        layer = model.get_layer(path.split("/")[0])
        heads = heads_of(layer)
        expected = tuple(entry.transform.shapes(tuple(variable.shape), heads))
        target = Target(path, tuple(variable.shape), layer, position_resize, source_grid)
        if _same_shapes(entry.shapes, expected) and not other_grid(target, entry, contents):
            steps.append(_Step(variable, layer, entry, expected))
            continue
        conversion = find_conversion(target, entry, contents)
        if conversion is None:
            misfits += [
                (name, theirs, received)
                for name, theirs, received in zip(entry.names, expected, entry.shapes, strict=True)
                if theirs != received
            ]
            continue
        change, sentence = conversion
        if sentence:  # a grid in another shape of array is not changed
            changed.append((layer, sentence))
        if sentence and sentence not in report.conversions:
            report.conversions.append(sentence)
        if change is None:
            report.unused_top.extend(entry.names)
        else:
            report.resized.extend(entry.names)
            steps.append(_Step(variable, layer, entry, entry.shapes, change))
    return steps, misfits, changed


def _stored_method(file) -> str | None:
    """Return the method by which the positions of a `.keras` file's model are resized; None for other files."""
    layers = file.model.layers if isinstance(file, KerasFile) else ()
    return next((layer.resize for layer in layers if getattr(layer, "resize", None)), None)


def _require_positions(model, contents: Contents) -> None:
    """Raise a ValueError if a file has fixed positions, which no array shows, and the model has others."""
    layer = next((layer for layer in model.layers if layer.name == "position_embedding"), None)
    if layer is None or layer.weights or not contents.layout.fixed_positions:
        return
    kind = type(layer).__name__
    if "position_embedding/embedding" not in contents.entries and kind != "SinCosPositions":
        raise ValueError(
            f"source expected a file for a model with {kind}, received {contents.source!r}, whose positions are fixed "
            "sines and cosines; build the model with positions='sincos2d'."
        )


def _require_heads(model, file, fields: dict) -> None:
    """Raise a ValueError if the number of heads differs from the file's. Shapes alone do not show it."""
    if isinstance(file, KerasFile):
        from keras_vit.composed import flattened

        heads = {layer.name: getattr(layer, "num_heads", None) for layer in flattened(file.model).layers}
    else:
        blocks = (layer.name for layer in model.layers if layer.name.startswith("encoder_block_"))
        heads = dict.fromkeys(blocks, fields.get("num_heads"))
    for layer in model.layers:
        received, expected = getattr(layer, "num_heads", None), heads.get(layer.name)
        if received != expected and None not in (received, expected):
            raise ValueError(
                f"num_heads expected {expected}, as in {file.source!r}, received {received} in {layer.name!r}."
            )


def _same_shapes(received, expected) -> bool:
    """Return whether shapes are equal, ignoring axes of length 1 if the ranks differ."""
    without_ones = lambda shape: [side for side in shape if side != 1]  # noqa: E731
    same = lambda a, b: a == b or (len(a) != len(b) and without_ones(a) == without_ones(b))  # noqa: E731
    return all(same(tuple(a), tuple(b)) for a, b in zip(received, expected, strict=True))


def _read_value(file, path, entry, shapes, suspicions) -> np.ndarray:
    """Read a variable's value from the file's arrays, reshaped to `shapes`. Add to `suspicions`."""
    arrays = []
    for name, shape in zip(entry.names, shapes, strict=True):
        array = file[name]
        array = array.astype("float32") if array.dtype != np.float32 else array
        suspicions.extend(_suspicions(array, name, path))
        arrays.append(array.reshape(shape))
    return entry.transform.read(*arrays)


def _suspicions(array, name, path):
    """Yield a sentence for each suspicious property of an array."""
    flat = array.reshape(-1, order="A")
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(np.dot(flat, flat))  # one pass without a copy; finite values can overflow, too
    if suspicious and not np.isfinite(flat).all():
        yield f"{name!r} holds values that are not finite."
    if path == "head/kernel" and not flat.any():
        yield f"{name!r} is all zeros: this classifier was never trained."
