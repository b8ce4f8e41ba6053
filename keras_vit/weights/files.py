"""Open files of weights: read all shapes at once, and arrays one by one.

Each class has `source` (name of the file), `shapes` (name -> shape, from the headers), `config` (from
`NAME.config.json` or `config.json` in the same folder), `verify(names)`, and `file[name]`, which returns a float array.
Nothing is ever unpickled.
"""

import json
import mmap
import os
from pathlib import Path

import numpy as np

from keras_vit.weights.applications import ApplicationsFile, is_application, reference_of
from keras_vit.weights.archive import NpzFile, Refused, WeightsFile, as_float, checksum
from keras_vit.weights.complete_config import Completed, complete_config
from keras_vit.weights.download import locate
from keras_vit.weights.efficientnets import size_of
from keras_vit.weights.keras_file import MODEL_SUFFIXES, KerasFile, check_hdf5
from keras_vit.weights.keras_hub_files import KerasHubFile, find_keras_hub
from keras_vit.weights.model_architecture import architecture_of_model
from keras_vit.weights.open_clip import OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS, as_timm_config
from keras_vit.weights.torch_file import TORCH_SUFFIXES, TorchFile
from keras_vit.weights.views import plain_name

_WEIGHTS_SUFFIXES = (".npz", ".safetensors", ".safetensors.index.json", ".weights.h5", *TORCH_SUFFIXES)
CHECKSUMS = "keras_vit.crc32"  # key in a `.safetensors` file's metadata: name -> `checksum`, as JSON


def open_weights(source: str | os.PathLike, model=None, *, verified: bool = True):
    """Open a file or a folder of weights.

    Args:
        source: a tag or a URL of the catalogue, `hf://ORG/NAME[/FILE][@REVISION]`, an `.npz`, `.safetensors`, `.pth`,
            `.pt`, `.pth.tar`, `.ckpt`, `.bin`, `.keras`, `.h5` or `.weights.h5` file, or a folder that holds one of
            them under its library's usual name.
        model: the model to fill, which `.weights.h5` files need because they do not name layers.
        verified: whether to check the SHA-256 of a published file in the cache. Reading headers only does not need it.

    Returns:
        The open file, a context manager.

    Raises:
        FileNotFoundError: `source` does not exist.
        ValueError: `source` is not a complete file of plain arrays.
    """
    path = locate(source, verified)
    if preset := find_keras_hub(path):
        return KerasHubFile(path, preset)
    if path.is_dir():
        path = _in_folder(path)
    name = path.name
    if name.endswith(MODEL_SUFFIXES):
        return _keras_file(path, model)
    if not name.endswith(_WEIGHTS_SUFFIXES):
        expected = f"{', '.join((*_WEIGHTS_SUFFIXES, *MODEL_SUFFIXES[:-1]))} or {MODEL_SUFFIXES[-1]}"
        raise ValueError(f"source expected a file that ends in {expected}, received {str(path)!r}.")
    kind = NpzFile if name.endswith(".npz") else TorchFile if name.endswith(TORCH_SUFFIXES) else SafetensorsFile
    config = _read_config(path)
    completed = Completed(config) if kind is NpzFile else complete_config(source, config)
    file = kind(path, completed.config)
    file.notes.extend(completed.notes)
    file.catalogue_spec = completed.spec
    try:
        file.require_plausible_sizes()
    except Refused:
        file.close()
        raise
    return file


def is_weights(path: Path) -> bool:
    """Return whether a path has the suffix of a file of weights, which a complete Keras model is not."""
    return path.name.endswith(_WEIGHTS_SUFFIXES)


def is_keras_model(path: Path) -> bool:
    """Return whether a path has the suffix of a complete Keras model."""
    return path.name.endswith(MODEL_SUFFIXES) and not is_weights(path)


def holds_weights(folder: Path) -> bool:
    """Return whether a folder holds a file that `open_weights` can open."""
    known = any((folder / name).is_file() for name in _FOLDER_NAMES) or find_keras_hub(folder) is not None
    return known or bool(_loose(folder))


def _keras_file(path: Path, model) -> WeightsFile:
    """Open a file of Keras, which may hold an EfficientNet of `keras.applications` or its weights."""
    if model is not None and path.suffix == ".h5" and any(layer.name == "root_norm" for layer in model.layers):
        check_hdf5(path, path.stat().st_size, str(path))
        reference = reference_of(path, size_of(architecture_of_model(model)))
        if reference is not None:
            return ApplicationsFile(path, reference, whole=False)
    file = KerasFile(path, model)
    return ApplicationsFile(path, file.model, whole=True) if is_application(file.model) else file


_FOLDER_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model.keras",
    "pytorch_model.bin",
    *OPEN_CLIP_WEIGHTS,
)


def _in_folder(folder: Path) -> Path:
    for name in _FOLDER_NAMES:
        if (folder / name).is_file():
            return folder / name
    files = _loose(folder)
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "no file of weights"
        raise ValueError(f"source expected a folder with one file of weights, found {names} in {str(folder)!r}.")
    return files[0]


def _loose(folder: Path) -> list[Path]:
    return [path for ending in ("*.npz", "*.safetensors", "*.keras") for path in sorted(folder.glob(ending))]


def config_path(path: Path) -> Path:
    """Return the path of a file's config: `config.json` if libraries look for it, else `NAME.config.json`."""
    return path.with_name("config.json" if path.name in _FOLDER_NAMES else f"{path.stem}.config.json")


def _read_config(path: Path) -> dict:
    """Return the config of a file; empty without one."""
    if path.name in OPEN_CLIP_WEIGHTS and (file := path.with_name(OPEN_CLIP_CONFIG)).is_file():
        return as_timm_config(_read_object(file))
    stems = dict.fromkeys((path.stem, path.name.split(".")[0]))
    for file in (*(path.with_name(f"{stem}.config.json") for stem in stems), path.with_name("config.json")):
        if file.is_file():
            return _read_object(file)
    return {}


def _read_object(file: Path) -> dict:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"source expected a JSON object in {str(file)!r}, received other text.") from None
    if not isinstance(config, dict):
        raise ValueError(f"source expected a JSON object in {str(file)!r}, received {config!r}.")
    return config


_SAFETENSORS_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "V2"}


class SafetensorsFile(WeightsFile):
    """A `.safetensors` file, or an index of several files."""

    def __init__(self, path, config):
        super().__init__(path, config)
        from safetensors import SafetensorError, safe_open

        self._tensors, self._checksums = {}, {}
        try:
            files = self._files_of(path)
            self.size = sum(file.stat().st_size for file in files)
            for file in files:
                with safe_open(file, framework="np"):  # the library checks that header and file agree
                    self._add(file)
        except (SafetensorError, OSError):
            raise self._refuse("a whole .safetensors file", "something else") from None

    def _add(self, file: Path) -> None:
        """Map a file that the library has checked. Its arrays are read in place."""
        with file.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        start = 8 + int.from_bytes(mapped[:8], "little")
        header = json.loads(mapped[8:start])
        checksums = self._recorded(header.pop("__metadata__", {}))
        for name, tensor in header.items():
            if name in self.shapes:
                raise Refused(f"source expected each array once, received {name!r} twice in {self.source!r}.")
            if checksums is not None:
                self._checksums[name] = checksums.get(name)
            if not self._takes(name, tensor["dtype"] in _SAFETENSORS_FLOATS, tensor["dtype"]):
                continue
            self.shapes[name] = tuple(tensor["shape"])
            self._tensors[name] = (mapped, start + tensor["data_offsets"][0], _SAFETENSORS_FLOATS[tensor["dtype"]])

    def _recorded(self, metadata: dict) -> dict | None:
        """Return the checksums of a file that this package wrote; None for other files."""
        if CHECKSUMS not in metadata:
            return None
        try:
            return dict(json.loads(metadata[CHECKSUMS]))
        except (ValueError, TypeError, RecursionError):
            raise self._refuse("checksums in its metadata", "damaged bytes") from None

    def verify(self, names):
        for name in sorted({plain_name(name) for name in names} & self._checksums.keys()):
            if checksum(self._stored(name)) != self._checksums[name]:
                raise self._refuse(f"{name!r} as it was written", "bytes with another checksum")

    def _files_of(self, path):
        if path.suffix != ".json":
            return [path]
        try:
            names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise self._refuse("an index with a weight_map", "other text") from None
        for name in names:
            if not isinstance(name, str) or Path(name).name != name:
                raise self._refuse("an index of files in its own folder", repr(name))
            if not path.with_name(name).is_file():
                raise FileNotFoundError(f"source expected {name!r} in the folder of {self.source!r}, found none.")
        return [path.with_name(name) for name in names]

    def _stored(self, name) -> np.ndarray:
        mapped, offset, dtype = self._tensors[name]
        return np.ndarray(self.shapes[name], dtype, mapped, offset)

    def _read(self, name):
        return as_float(self._stored(name))

    def close(self):
        self._tensors, self._maps = {}, []
