"""Read Keras's files: complete models (`.keras`, `.h5`), and weights for a given model (`.weights.h5`).

Sizes and checksums are checked before Keras reads a file. A config can declare any size, and Keras does not report an
archive with a wrong checksum.
"""

import contextlib
import json
import math
import zipfile
from pathlib import Path

import numpy as np

from keras_vit.weights.adapters import merge_note, readers, require_float
from keras_vit.weights.archive import MappedZip, Refused, WeightsFile, checksum, require_plausible

MODEL_SUFFIXES = (".keras", ".h5", ".hdf5")  # suffixes of complete models
_WEIGHTS = "model.weights.h5"  # member of a `.keras` file
_MAX_CONFIG = 64 * 2**20  # bytes
_CHECKSUM = "crc32"  # attribute of an array in an HDF5 file


@contextlib.contextmanager
def without_weights():
    """Build models without values inside the `with`: their variables have only shapes.

    The models can be inspected afterwards, but not called.
    """
    import keras

    from keras_vit.private import set_waiting_variables, waiting_variables

    # Keras initialises all waiting variables at the end of the next such scope; these must not be initialised.
    waiting = waiting_variables()
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        set_waiting_variables(waiting)


def read_model(path: Path):
    """Load the model of a `.keras` or complete `.h5` file without compiling it.

    Warn about every variable with values that are not finite.

    Raises:
        ValueError: the file is damaged, declares more than it holds, or holds no model. The message is only the reason.
    """
    import keras

    try:
        if path.suffix == ".keras":
            _check_archive(path)
        else:
            check_hdf5(path, path.stat().st_size, str(path))
            with without_weights():  # raises if config and weights do not fit
                keras.saving.load_model(path, compile=False)
        model = keras.saving.load_model(path, compile=False)
    except Exception as error:  # Keras, h5py and zipfile raise different types
        raise ValueError(reason_of(error)) from error
    if not isinstance(model, keras.Model):
        raise ValueError(f"it holds a {type(model).__name__}")
    if path.suffix != ".keras" and type(model).__name__ == "Functional":
        # HDF5 does not store the registered name of the outermost class.
        flag = {} if model.trainable else {"trainable": False}
        model = keras.saving.get_registered_object("keras_vit>VisionModel")(
            model.input, model.output, name=model.name, **flag
        )
    _warn_not_finite(model, path)
    return model


def reason_of(error: Exception) -> str:
    """Return the reason of a Keras error in one line. Keras's message can fill pages, with the reason at the end."""
    text = str(error).rpartition("Exception encountered: ")[2].partition(" Full object config:")[0].strip()
    line = (text or type(error).__name__).splitlines()[0]
    return line if len(line) <= 300 else f"{line[:300]} ..."


def read_config(path: Path) -> dict:
    """Return the config of a `.keras` file's model.

    Raises:
        ValueError: the config cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as file:
            if file.getinfo("config.json").file_size > _MAX_CONFIG:
                raise ValueError("its config is too large")
            return json.loads(file.read("config.json"))
    except (KeyError, RecursionError, UnicodeDecodeError, json.JSONDecodeError, NotImplementedError) as error:
        raise ValueError(f"its config cannot be read ({reason_of(error)})") from None


def _check_archive(path: Path) -> None:
    """Raise a ValueError if a `.keras` file is damaged, or declares more than it holds."""
    import keras
    from keras.saving import deserialize_keras_object

    size = path.stat().st_size
    config = read_config(path)
    archive = MappedZip(path)
    try:
        require_plausible(sum(info.file_size for info in archive.infos), size, str(path))
        for info in archive.infos:
            if not archive.is_whole(info):
                raise ValueError(f"Bad CRC-32 for file {info.filename!r}")
            if info.filename == _WEIGHTS:
                with archive.open(info) as file:
                    check_hdf5(file, size, str(path))
    finally:
        archive.close()
    with without_weights():
        model = deserialize_keras_object({**config, "compile_config": None})
    if isinstance(model, keras.Model):
        declared = sum(math.prod(variable.shape) * np.dtype("float32").itemsize for variable in model.variables)
        most = 4 * size + 64 * 2**20  # bfloat16 and new adapters need a few times the file's size
        if declared > most:
            raise ValueError(f"its config declares {declared:,} bytes of weights, the file has {size:,} bytes")


def check_hdf5(file, size: int, source: str) -> None:
    """Raise a ValueError if an HDF5 file declares more than it holds, or a checksum differs."""
    with _opened(file) as hdf5:
        arrays = dict(_arrays(hdf5))
        require_plausible(sum(array.nbytes for array in arrays.values()), size, source)
        recorded = {name: array.attrs.get(_CHECKSUM) for name, array in arrays.items()}
        if any(recorded.values()):
            for name, array in arrays.items():
                if checksum(array[()]) != recorded[name]:
                    raise ValueError(f"{name!r} was not read as it was written")


def write_checksums(path: Path) -> None:
    """Record the checksum of each array in an HDF5 file that Keras wrote."""
    with _opened(path, "r+") as hdf5:
        for _, array in _arrays(hdf5):
            array.attrs[_CHECKSUM] = checksum(array[()])


def _opened(file, mode="r"):
    import h5py

    return h5py.File(file, mode)


def _arrays(hdf5) -> list:
    import h5py

    arrays = []
    hdf5.visititems(lambda name, item: arrays.append((name, item)) if isinstance(item, h5py.Dataset) else None)
    return arrays


def _warn_not_finite(model, path) -> None:
    import warnings

    for variable in model.variables:
        values = np.asarray(variable)
        if values.dtype.kind in "fV" and not np.isfinite(values.astype("float32")).all():
            warnings.warn(f"{path}: {variable.path!r} holds values that are not finite.", stacklevel=4)


class KerasFile(WeightsFile):
    """A `.keras`, complete `.h5` or `.weights.h5` file, which Keras reads into a second model."""

    def __init__(self, path, model=None):
        super().__init__(path, {})
        try:
            if not path.name.endswith(".weights.h5"):
                self.model = read_model(path)
            elif model is None:
                raise Refused(
                    f"source expected a file that states its architecture, received {self.source!r}: "
                    "build the model and pass it to load_weights, or save it as .keras."
                )
            else:
                check_hdf5(path, self.size, self.source)
                self.model = model.__class__.from_config(model.get_config())
                self.model.load_weights(path)
        except Refused:
            raise
        except Exception as error:  # Keras and h5py raise different types
            reason = reason_of(error)
            raise ValueError(f"source expected a Keras file that fits, received {self.source!r}: {reason}") from None
        from keras_vit.composed import flattened, weight_paths

        self._readers = readers(flattened(self.model))
        self.shapes = {path: tuple(v.shape) for path, v in weight_paths(flattened(self.model)).items()}
        self.notes += filter(None, [merge_note(self.model)])
        positions = [layer for layer in flattened(self.model).layers if layer.name == "position_embedding"]
        self.grid = tuple(positions[0].grid) if positions else None

    def require_weights(self):
        advice = "keras_vit.load_model opens it; save the model before `quantize` for its weights"
        require_float(self.model, f"source {self.source!r}", advice)

    def _read(self, name):
        return self._readers[name]()
