"""An export on disk -> something that answers, without its Keras model."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit.export.versions import versions
from keras_vit.models.interface import Interface


@dataclass(frozen=True)
class ExportedModel:
    """A loaded SavedModel with what its manifest says of it.

    Args:
        path: the version's folder.
        name: of the Keras model it came from.
        interface: what it takes and puts out.
        loaded: TensorFlow's object; it holds the weights, and its `signatures`.
    """

    path: Path
    name: str
    interface: Interface
    loaded: Any

    def __call__(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name for images (B, H, W, C) in the model's own range."""
        answer = self.loaded.signatures["serving_default"](images=tf.constant(images, tf.float32))
        return {name: value.numpy() for name, value in answer.items()}


def version_folder(source: str | os.PathLike) -> Path | None:
    """The version that a path means, itself one or the newest in it; None where the path is no export."""
    path = Path(source)
    newest = [path / str(number) for number in versions(path)[-1:]]
    for folder in (path, *newest):
        if (folder / "manifest.json").is_file() and (folder / "saved_model.pb").is_file():
            return folder
    return None


def load_export(source: str | os.PathLike) -> ExportedModel:
    """Load an exported SavedModel.

    Args:
        source: `saved_models/NAME`, of which the newest version is taken, or a version's own folder.

    Raises:
        ValueError: no export lies there.
    """
    folder = version_folder(source)
    if folder is None:
        raise ValueError(
            f"model expected a folder with model.keras, or an export (saved_models/NAME or a version in it), "
            f"received {str(source)!r}."
        )
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    size = manifest["input"]["image_size"]
    interface = Interface(
        input_shape=tuple(manifest["input"]["shape"]),
        image_size=size and tuple(size),
        input_range=tuple(manifest["input"]["range"]),
        classes=manifest["classes"],
        labels=tuple(manifest["labels"]),
    )
    return ExportedModel(folder, manifest["model"], interface, tf.saved_model.load(str(folder)))
