"""Read conventions and the classes from a file's headers, without its arrays."""

import os

from keras_vit.weights.architecture import origin_of_contents
from keras_vit.weights.config_fields import config_fields
from keras_vit.weights.contents import read_contents
from keras_vit.weights.files import open_weights
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.model_architecture import architecture_of_model


def conventions_of(source: str | os.PathLike, known: dict | None = None) -> dict:
    """Return the activation and the epsilons that a file's origin uses, as fields of `Architecture`.

    A `.keras` file's model states them. The result is empty for `.weights.h5`, which does not state them.

    Args:
        source: the file, or a tag of `list_weights()`.
        known: values that replace the layout's defaults where the file and its config state none.
    """
    if os.fspath(source).endswith(".weights.h5"):
        return {}
    with open_weights(source, verified=False) as file:
        contents = read_contents(file)
        defaults = origin_of_contents(contents) | (known or {})
        if isinstance(file, KerasFile):
            fields = vars(architecture_of_model(file.model))
        else:
            fields = config_fields(file, contents)
    return {name: fields.get(name, default) for name, default in defaults.items()}


def classes_of(source: str | os.PathLike, model=None) -> tuple[int | None, tuple[str, ...] | None]:
    """Return the number of classes of a file's classifier, None without one, and their names if the file states them.

    Args:
        source: the file, a folder that holds one, or a tag of `list_weights()`.
        model: a model of the file's architecture, which `.weights.h5` files need.
    """
    with open_weights(source, model, verified=False) as file:
        if isinstance(file, KerasFile):
            architecture = architecture_of_model(file.model)
            return architecture.classes, architecture.labels
        contents = read_contents(file)
        head, labels = contents.entries.get("head/kernel"), config_fields(file, contents).get("labels")
    count = None if head is None else head.shape[-1]
    return count, None if labels is None or len(labels) != count else tuple(labels)


def require_classes(source: str | os.PathLike, classes: int) -> None:
    """Raise a ValueError if a file has a classifier with another number of classes."""
    if os.fspath(source).endswith((".keras", ".h5", ".hdf5")):
        return
    with open_weights(source, verified=False) as file:
        head = read_contents(file).entries.get("head/kernel")
    if head is not None and head.shape[-1] != classes:
        raise ValueError(f"classes expected {head.shape[-1]}, as in {os.fspath(source)!r}, received {classes}.")
