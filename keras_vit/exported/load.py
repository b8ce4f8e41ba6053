"""Load an export without its Keras model."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_vit.export.formats import FORMATS
from keras_vit.export.optional import NotInstalled
from keras_vit.exported.folders import formats_in, version_folder
from keras_vit.models.model_interface import ModelInterface
from keras_vit.preprocessing.image_spec import ImageSpec


@dataclass(frozen=True)
class ExportedModel:
    """A loaded export, which is called like a model.

    Args:
        path: the version folder.
        format: name of the loaded format, a key of `keras_vit.export.formats.FORMATS`.
        name: name of the exported Keras model.
        interface: inputs and outputs of the model.
        signatures: functions of named tensors that return a dict of tensors. Only a SavedModel has more signatures than
            `serving_default`.
    """

    path: Path
    format: str
    name: str
    interface: ModelInterface
    signatures: dict[str, Callable]

    def __call__(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Return the outputs by name for images (B, H, W, C) in the range that the model takes."""
        outputs = self.signatures["serving_default"](images=np.asarray(images, "float32"))
        return {name: np.asarray(value) for name, value in outputs.items()}


def load_export(source: str | os.PathLike) -> ExportedModel:
    """Load an export.

    Args:
        source: `saved_models/NAME`, which means its newest version, a version folder, or one file of it such as
            `model.onnx`. From a folder, the first format of `FORMATS` that is present is loaded.

    Raises:
        ValueError: the source is no export, the export is damaged, or the package of its format is not installed.
    """
    path = Path(source)
    folder = version_folder(path.parent if path.is_file() else path)
    formats = [] if folder is None else formats_in(folder)
    if path.is_file():
        formats = [name for name in formats if FORMATS[name].file == path.name]
    if not formats:
        raise ValueError(
            f"model expected a folder with model.keras, or an export (saved_models/NAME or a version in it, or one of "
            f"its files), received {str(source)!r}."
        )
    with _errors_name(folder, "manifest.json"):
        name, interface = _read_manifest(folder / "manifest.json")
    with _errors_name(folder, formats[0]):  # each format's library raises its own errors
        row = FORMATS[formats[0]]
        signatures = row.module.load(folder / row.file)
    return ExportedModel(folder, formats[0], name, interface, signatures)


def _read_manifest(path: Path) -> tuple[str, ModelInterface]:
    """Return the name and the interface of the model from `manifest.json`."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    size = manifest["input"]["image_size"]
    interface = ModelInterface(
        input_shape=tuple(manifest["input"]["shape"]),
        image_size=size and tuple(size),
        input_range=tuple(manifest["input"]["range"]),
        classes=manifest["classes"],
        labels=tuple(manifest["labels"]),
        preprocessing=ImageSpec(**manifest["input"].get("preprocessing", {})),  # absent from older exports
        thresholds=tuple(manifest["thresholds"]) if "thresholds" in manifest else None,
        targets=tuple(manifest.get("targets", ())),
        ordered=manifest.get("ordered", False),
    )
    return manifest["model"], interface


@contextlib.contextmanager
def _errors_name(folder: Path, damaged: str):
    """Raise a ValueError that names the folder and the damaged file or format, in place of any other error."""
    try:
        yield
    except (ImportError, MemoryError, NotInstalled):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"model expected a whole export, received {str(folder)!r}, whose {damaged} cannot be read: {reason}"
        ) from error
