"""Models of shapes alone: built without a single weight in memory, to be counted and thrown away."""

import os
import zipfile
from pathlib import Path

import keras

from keras_vit.models.builders import build
from keras_vit.models.load import load_model
from keras_vit.models.model_interface import model_interface
from keras_vit.models.variants import find_variant
from keras_vit.weights import is_keras_model, is_weights
from keras_vit.weights.keras_file import read_config, reason_of, without_weights


def open_weightless(source: str | os.PathLike, image_size: tuple[int, int] | None = None, **options) -> keras.Model:
    """The model that a source means, without its weights.

    Args:
        source: a model's name, of which a weights tag is left out; a workdir; or a `.keras` file. A file of published
            weights is read whole, because its arrays are what says which model it is.
        image_size: (height, width) in place of the model's own.
        **options: those of `build`, for a name.

    Raises:
        FileNotFoundError: nothing lies at the path.
        ValueError: no model has this name, what lies there is no model, or it has another, fixed size.
    """
    path = Path(source)
    path = path / "model.keras" if (path / "model.keras").is_file() else path
    if path.is_file() and path.suffix == ".keras" and zipfile.is_zipfile(path):
        _refuse(options)
        return _from_file(path, image_size)
    if path.exists() or is_keras_model(path) or is_weights(path):
        _refuse(options)
        model = load_model(source)
        _require_size(model, image_size)
        return model
    try:
        row = find_variant(str(source))[0]
    except ValueError as error:
        raise ValueError(f"nothing lies at {str(source)!r}, and as a name it is unknown: {error}") from None
    return build_weightless(row, image_size, **options)


def build_weightless(row, image_size: tuple[int, int] | None = None, channels: int = 3, **options) -> keras.Model:
    """A row's model without weights; the options are those of `build`."""
    with without_weights():
        return build(row, input_shape=(*(image_size or (row.image_size,) * 2), channels), **options)


def _from_file(path: Path, image_size) -> keras.Model:
    """The model of a `.keras` file, from its configuration alone."""
    try:
        config = read_config(path)
        config.pop("compile_config", None)
        for layer in config["config"].get("layers", ()) if image_size else ():
            if layer["class_name"] == "InputLayer":
                batch, *sides, channels = layer["config"]["batch_shape"]
                sides = [side or wanted for side, wanted in zip(sides, image_size, strict=True)]
                layer["config"]["batch_shape"] = [batch, *sides, channels]
        with without_weights():
            model = keras.saving.deserialize_keras_object(config)
        if not isinstance(model, keras.Model):
            raise ValueError(f"it holds a {type(model).__name__}")
    except Exception as error:  # Keras lets everything through that a damaged config leads to
        reason = reason_of(error)
        raise ValueError(f"model expected a .keras file of this package, received {str(path)!r}: {reason}") from error
    own = model_interface(model)
    if None in own.input_shape[:2] and own.image_size is not None:  # of any size: that of its positions
        return _from_file(path, own.image_size)
    _require_size(model, image_size)
    return model


def _require_size(model, image_size):
    own = tuple(model.inputs[0].shape[1:3])
    if image_size is not None and own != tuple(image_size):
        raise ValueError(f"image_size expected the model's own {own}, which its file fixes, received {image_size}.")
    if None in own:
        raise ValueError("image_size expected (height, width) for a model of any size, received nothing.")


def _refuse(options):
    if options:
        raise ValueError(f"{next(iter(options))} expected nothing with a file, which says it itself, received "
                         f"{next(iter(options.values()))!r}.")  # fmt: skip
