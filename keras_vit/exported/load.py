"""An export on disk -> something that answers, without its Keras model."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_vit.exported.folders import FILES, formats_in, version_folder
from keras_vit.exported.optional import NotInstalled
from keras_vit.exported.run import load_signatures
from keras_vit.models.interface import Interface


@dataclass(frozen=True)
class ExportedModel:
    """A loaded export with what its manifest says of it.

    Args:
        path: the version's folder.
        format: of the files that were loaded, one of `keras_vit.export.FORMATS`.
        name: of the Keras model it came from.
        interface: what it takes and puts out.
        signatures: functions of named tensors to tensors by name; only a SavedModel has more than `serving_default`.
    """

    path: Path
    format: str
    name: str
    interface: Interface
    signatures: dict[str, Callable]

    def __call__(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name for images (B, H, W, C) in the model's own range."""
        answer = self.signatures["serving_default"](images=np.asarray(images, "float32"))
        return {name: np.asarray(value) for name, value in answer.items()}


def load_export(source: str | os.PathLike) -> ExportedModel:
    """Load an export.

    Args:
        source: `saved_models/NAME`, of which the newest version is taken, or a version's own folder; of either its
            SavedModel, or else the first format of the table that lies there. Or one file of a version: `model.onnx`.

    Raises:
        ValueError: no export lies there, it is damaged, or the package that runs its format is not installed.
    """
    path = Path(source)
    folder = version_folder(path.parent if path.is_file() else path)
    found = [] if folder is None else formats_in(folder)
    if path.is_file():
        found = [name for name in found if FILES[name] == path.name]
    if not found:
        raise ValueError(
            f"model expected a folder with model.keras, or an export (saved_models/NAME or a version in it, or one of "
            f"its files), received {str(source)!r}."
        )
    with _naming(folder, "manifest.json"):
        name, interface = _said(folder / "manifest.json")
    with _naming(folder, found[0]):  # each format's library has errors of its own
        signatures = load_signatures(found[0], folder)
    return ExportedModel(folder, found[0], name, interface, signatures)


def _said(manifest: Path) -> tuple[str, Interface]:
    """The model's name and interface, as a manifest says them."""
    said = json.loads(manifest.read_text(encoding="utf-8"))
    size = said["input"]["image_size"]
    interface = Interface(
        input_shape=tuple(said["input"]["shape"]),
        image_size=size and tuple(size),
        input_range=tuple(said["input"]["range"]),
        classes=said["classes"],
        labels=tuple(said["labels"]),
    )
    return said["model"], interface


@contextlib.contextmanager
def _naming(folder: Path, part: str):
    """Turn what a damaged part of an export raises into one sentence that names both."""
    try:
        yield
    except (ImportError, MemoryError, NotInstalled):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"model expected a whole export, received {str(folder)!r}, whose {part} cannot be read: {reason}"
        ) from error
