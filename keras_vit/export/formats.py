"""The table of formats. A format is a module of this room with `write` and `load`, and a row here.

The modules import TensorFlow and Keras inside `write` only, because `keras-vit predict` loads files without them.
"""

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keras_vit.export import onnx, openvino, saved_model, tflite
from keras_vit.export.optional import NotInstalled, not_installed
from keras_vit.export.tolerance import CALIBRATED, EXACT, REDUCED, Tolerance
from keras_vit.export.write_options import WriteOptions

if TYPE_CHECKING:
    import keras


class FormatModule(Protocol):
    """The functions of a format's module.

    `write` may write more files next to `file`. `load` returns functions of named arrays by signature. The signature
    `serving_default` takes `images` (B, H, W, C) and returns the outputs of `named_outputs`.
    """

    def write(self, model: "keras.Model", file: Path, options: WriteOptions) -> None: ...

    def load(self, file: Path) -> dict[str, Callable]: ...


@dataclass(frozen=True)
class Format:
    """A row of the table.

    Args:
        file: name of the main file in a version folder; the version has the format if the file exists.
        module: the module that writes and loads the file.
        tolerance: allowed difference from a Keras model in float32.
        precision: precision of the stored weights, passed to `write`.
        free_size: whether the format can store a model with a free image size.
        by_default: whether the format is written if no formats are given.
        calibrated: whether the format needs calibration images.
        packages: names for pip of the packages that write and compare the file, of the extra `formats`.
    """

    file: str
    module: FormatModule
    tolerance: Tolerance
    precision: str = "float32"
    free_size: bool = True
    by_default: bool = False
    calibrated: bool = False
    packages: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """Return the first of the packages that is not installed, or None."""
        return next((name for name in self.packages if not _found(name.replace("-", "_"))), None)


def _found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


_TFLITE = {"module": tflite, "free_size": False, "packages": ("ai-edge-litert",)}
_REDUCED_TFLITE = {**_TFLITE, "tolerance": REDUCED, "by_default": True}
_CALIBRATED_TFLITE = {**_TFLITE, "tolerance": CALIBRATED, "calibrated": True}

# From a folder with several formats, the first one is loaded.
FORMATS = {
    "saved_model": Format("saved_model.pb", saved_model, EXACT, by_default=True),
    "tflite": Format("model.tflite", tolerance=EXACT, by_default=True, **_TFLITE),
    "tflite-fp16": Format("model-fp16.tflite", precision="float16", **_REDUCED_TFLITE),
    "tflite-int8-dynamic": Format("model-int8-dynamic.tflite", precision="int8-dynamic", **_REDUCED_TFLITE),
    "onnx": Format("model.onnx", onnx, EXACT, packages=("tf2onnx", "onnx", "onnxruntime")),
    "openvino": Format("model.xml", openvino, EXACT, packages=("openvino",)),
    "openvino-int8": Format(
        "model-int8.xml", openvino, CALIBRATED, "int8", calibrated=True, packages=("openvino", "nncf")
    ),
    "tflite-int8": Format("model-int8.tflite", precision="int8", **_CALIBRATED_TFLITE),
    "tflite-int16x8": Format("model-int16x8.tflite", precision="int16x8", **_CALIBRATED_TFLITE),
}


def default_formats(free_size: bool) -> tuple[str, ...]:
    """Return the formats that are written if none are given, for a model with or without a free image size.

    Warns:
        UserWarning: a format is left out, because its package is not installed.
    """
    names = tuple(name for name, row in FORMATS.items() if row.by_default and (row.free_size or not free_size))
    missing = {name: package for name in names if (package := FORMATS[name].missing)}
    if missing:
        packages = ", ".join(sorted(set(missing.values())))
        warnings.warn(
            f"left out {', '.join(missing)}: found no {packages}; pip install 'keras-vit-zoo[formats]'.",
            stacklevel=2,
        )
    return tuple(name for name in names if name not in missing)


def require_formats(names) -> None:
    """Raise a ValueError unless `names` are names of formats."""
    if isinstance(names, str) or not names or any(name not in FORMATS for name in names):
        raise ValueError(f"formats expected some of {tuple(FORMATS)}, received {names!r}.")


def require_installed(names) -> None:
    """Raise a `NotInstalled` error if a package of a format is not installed, before a model is loaded."""
    for name in names:
        if package := FORMATS[name].missing:
            raise NotInstalled(not_installed(name, package))
