"""Build models without weights, to count their costs. Only the shapes of their variables exist."""

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
    """Load a model without its weights.

    Args:
        source: a model's name, with or without a weights tag; a workdir; or a `.keras` file. Published weights are
            loaded with their values, because the arrays determine the model.
        image_size: (height, width), which replaces the model's image size.
        **options: arguments of `build`, for a name.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: no model has this name, the path is no model, or the model has another, fixed image size.
    """
    path = Path(source)
    path = path / "model.keras" if (path / "model.keras").is_file() else path
    if path.is_file() and path.suffix == ".keras" and zipfile.is_zipfile(path):
        _require_no_options(options)
        return _from_file(path, image_size)
    if path.exists() or is_keras_model(path) or is_weights(path):
        _require_no_options(options)
        model = load_model(source)
        _require_size(model, image_size)
        return model
    try:
        row = find_variant(str(source))[0]
    except ValueError as error:
        raise ValueError(f"nothing lies at {str(source)!r}, and as a name it is unknown: {error}") from None
    return build_weightless(row, image_size, **options)


def build_weightless(row, image_size: tuple[int, int] | None = None, channels: int = 3, **options) -> keras.Model:
    """Build a row's model without weights. The options are arguments of `build`."""
    with without_weights():
        return build(row, input_shape=(*(image_size or (row.image_size,) * 2), channels), **options)


def _from_file(path: Path, image_size) -> keras.Model:
    """Build the model of a `.keras` file from its config."""
    try:
        config = read_config(path)
        config.pop("compile_config", None)
        for layer in config["config"].get("layers", ()) if image_size else ():
            if layer["class_name"] == "InputLayer":
                batch, *sides, channels = layer["config"]["batch_shape"]
                sides = [side or new for side, new in zip(sides, image_size, strict=True)]
                layer["config"]["batch_shape"] = [batch, *sides, channels]
        with without_weights():
            model = keras.saving.deserialize_keras_object(config)
        if not isinstance(model, keras.Model):
            raise ValueError(f"it is a {type(model).__name__}")
    except Exception as error:  # Keras does not document its errors for a damaged config
        reason = reason_of(error)
        raise ValueError(f"model expected a .keras file of this package, received {str(path)!r}: {reason}") from error
    interface = model_interface(model)
    if None in interface.input_shape[:2] and interface.image_size is not None:
        return _from_file(path, interface.image_size)  # the size that the position embedding is stored for
    _require_size(model, image_size)
    return model


def _require_size(model, image_size):
    fixed = tuple(model.inputs[0].shape[1:3])
    if image_size is not None and fixed != tuple(image_size):
        raise ValueError(f"image_size expected {fixed}, which the model's file fixes, received {image_size}.")
    if None in fixed:
        raise ValueError("image_size expected (height, width) for a model with a free image size, received nothing.")


def _require_no_options(options):
    if options:
        raise ValueError(f"{next(iter(options))} expected a model's name, received a file and "
                         f"{next(iter(options.values()))!r}.")  # fmt: skip
