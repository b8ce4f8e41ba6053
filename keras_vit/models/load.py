"""A model from where a user has it: a training run's folder, a `.keras` file, or its name."""

import os
import zipfile
from pathlib import Path

import keras

from keras_vit.models.builders import create_model


def load_model(source: str | os.PathLike) -> keras.Model:
    """Load or build the Keras model that a source means, not compiled.

    Args:
        source: a workdir (it holds `model.keras`), a `.keras` file, or a model's name as `create_model` takes it;
            a name without a weights tag gives a freshly initialised model.

    Raises:
        FileNotFoundError: nothing lies at the path.
        ValueError: what lies there is no Keras model, or no model has this name.
    """
    path = Path(source)
    if path.is_dir():
        if not (path / "model.keras").is_file():
            raise ValueError(
                f"model expected a folder that holds model.keras, received {str(source)!r}, which does not."
            )
        path = path / "model.keras"
    if path.is_file():
        return _read(path)
    if path.suffix == ".keras":
        raise FileNotFoundError(f"model expected a .keras file, found nothing at {str(source)!r}.")
    try:
        return create_model(str(source))
    except ValueError as error:
        raise ValueError(f"nothing lies at {str(source)!r}, and as a name it is unknown: {error}") from None


def _read(path: Path) -> keras.Model:
    if path.suffix != ".keras" or not zipfile.is_zipfile(path):
        raise ValueError(f"model expected a .keras file, received {str(path)!r}, which is none.")
    try:
        return keras.saving.load_model(path, compile=False)
    except (ValueError, OSError, KeyError, TypeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"model expected a .keras file of this package, received {str(path)!r}: {reason}") from error
