"""Files of weights: the shapes in them at once, the arrays one by one.

Each class has `source` (what to call the file), `shapes` (name -> shape, from the headers), `config` (the
one beside it: `NAME.config.json`, else `config.json`), `verify(names)` and `file[name]`, a float array. Nothing is ever
unpickled.
"""

import json
import mmap
import os
import warnings
from pathlib import Path

import numpy as np

from keras_vit.composed import flattened, weight_paths
from keras_vit.weights.adapters import merge_note, readers, require_float
from keras_vit.weights.archive import NpzFile, Refused, WeightsFile, as_float
from keras_vit.weights.download import locate


def open_weights(source: str | os.PathLike, model=None):
    """Open a file or a folder of weights.

    Args:
        source: a tag of `list_weights()`, or
            an `.npz`, `.safetensors`, `.pth`, `.pt`, `.bin`, `.keras` or `.weights.h5` file, or a folder that
            holds one of them under its library's usual name.
        model: the model to be filled, which `.weights.h5` files need because they name no layers.

    Raises:
        FileNotFoundError: nothing lies at `source`.
        ValueError: it is not a whole file of plain arrays.
    """
    path = locate(source)
    if path.is_dir():
        path = _in_folder(path)
    config = _config_beside(path)
    name = path.name
    if name.endswith(".npz"):
        return NpzFile(path, config)
    if name.endswith((".safetensors", ".safetensors.index.json")):
        return SafetensorsFile(path, config)
    if name.endswith((".pth", ".pt", ".bin")):
        return TorchFile(path, config)
    if name.endswith((".keras", ".weights.h5")):
        return KerasFile(path, config, model)
    expected = ".npz, .safetensors, .pth, .pt, .bin, .keras or .weights.h5"
    raise ValueError(f"source expected a file that ends in {expected}, received {str(path)!r}.")


def is_weights(path: Path) -> bool:
    """Whether a path's name is that of a file of weights other than `.keras`; nothing need lie there."""
    return path.name.endswith((".npz", ".safetensors", ".safetensors.index.json", ".pth", ".pt", ".bin", ".weights.h5"))


def holds_weights(folder: Path) -> bool:
    """Whether a folder holds a file that `open_weights` may mean by it."""
    return any((folder / name).is_file() for name in _FOLDER_NAMES) or bool(_loose(folder))


_FOLDER_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model.keras",
    "pytorch_model.bin",
)


def _in_folder(folder: Path) -> Path:
    for name in _FOLDER_NAMES:
        if (folder / name).is_file():
            return folder / name
    files = _loose(folder)
    if len(files) != 1:
        found = ", ".join(path.name for path in files) or "no file of weights"
        raise ValueError(f"source expected a folder with one file of weights, found {found} in {str(folder)!r}.")
    return files[0]


def _loose(folder: Path) -> list[Path]:
    return [path for ending in ("*.npz", "*.safetensors", "*.keras") for path in sorted(folder.glob(ending))]


def config_path(path: Path) -> Path:
    """Where the config of a file goes: `config.json` where libraries look for it, else one of the file's own."""
    return path.with_name("config.json" if path.name in _FOLDER_NAMES else f"{path.stem}.config.json")


def _config_beside(path: Path) -> dict:
    own = dict.fromkeys((path.stem, path.name.split(".")[0]))
    for beside in (*(path.with_name(f"{stem}.config.json") for stem in own), path.with_name("config.json")):
        if beside.is_file():
            try:
                config = json.loads(beside.read_text(encoding="utf-8"))
            except (ValueError, RecursionError):
                raise ValueError(f"source expected a JSON object in {str(beside)!r}, received other text.") from None
            if not isinstance(config, dict):
                raise ValueError(f"source expected a JSON object in {str(beside)!r}, received {config!r}.")
            return config
    return {}


_SAFETENSORS_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "V2"}


class SafetensorsFile(WeightsFile):
    """A `.safetensors` file, or the index of several."""

    def __init__(self, path, config):
        super().__init__(path, config)
        from safetensors import SafetensorError, safe_open

        self._of = {}
        try:
            for file in self._files_of(path):
                with safe_open(file, framework="np"):  # the library checks that header and file agree
                    self._add(file)
        except (SafetensorError, OSError):
            raise self._refuse("a whole .safetensors file", "something else") from None

    def _add(self, file: Path) -> None:
        """Map a file that the library found sound; its arrays are read in place."""
        with file.open("rb") as opened:
            whole = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(whole)
        start = 8 + int.from_bytes(whole[:8], "little")
        for name, tensor in json.loads(whole[8:start]).items():
            if name == "__metadata__":
                continue
            if not self._takes(name, tensor["dtype"] in _SAFETENSORS_FLOATS, tensor["dtype"]):
                continue
            self.shapes[name] = tuple(tensor["shape"])
            self._of[name] = (whole, start + tensor["data_offsets"][0], _SAFETENSORS_FLOATS[tensor["dtype"]])

    def _files_of(self, path):
        if path.suffix != ".json":
            return [path]
        try:
            names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise self._refuse("an index with a weight_map", "other text") from None
        for name in names:
            if not isinstance(name, str) or Path(name).name != name:
                raise self._refuse("an index of files in its own folder", repr(name))
            if not path.with_name(name).is_file():
                raise FileNotFoundError(f"source expected {name!r} beside {self.source!r}, found none.")
        return [path.with_name(name) for name in names]

    def _read(self, name):
        whole, offset, dtype = self._of[name]
        return as_float(np.ndarray(self.shapes[name], dtype, whole, offset))

    def close(self):
        self._of, self._maps = {}, []


_STATE_KEYS = ("state_dict_ema", "state_dict", "model_ema", "model", "module")


class TorchFile(WeightsFile):
    """A torch state dict, opened with `weights_only=True`; needs torch."""

    def __init__(self, path, config):
        super().__init__(path, config)
        try:
            import torch
        except ImportError:
            raise ImportError(
                f"source {self.source!r} needs torch to be read: pip install torch, or ask for .safetensors."
            ) from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pickle protocols; what matters is refused
                state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception:  # what a damaged pickle raises is not listed anywhere
            raise self._refuse("a torch state dict of plain tensors", "something else") from None
        while isinstance(state, dict) and not any(torch.is_tensor(value) for value in state.values()):
            found = [key for key in _STATE_KEYS if isinstance(state.get(key), dict)]
            if not found:
                raise self._refuse("a torch state dict of plain tensors", "something else")
            if len(found) > 1:
                self.notes.append(f"the file holds {' and '.join(map(repr, found))}; {found[0]!r} was read")
            state = state[found[0]]
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise self._refuse("a torch state dict of plain tensors", "something else")
        tensors = {name: value for name, value in state.items() if torch.is_tensor(value)}
        self._tensors = {
            name: value for name, value in tensors.items() if self._takes(name, value.is_floating_point(), value.dtype)
        }
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def _read(self, name):
        tensor = self._tensors[name].detach()
        return (tensor.float() if tensor.dtype.itemsize < 4 else tensor).numpy()


class KerasFile(WeightsFile):
    """Our own `.keras` or `.weights.h5`, read by Keras into a second model whose variables are handed over."""

    def __init__(self, path, config, model=None):
        super().__init__(path, {})
        import keras

        try:
            if path.name.endswith(".keras"):
                self.model = keras.saving.load_model(path, compile=False)
            elif model is None:
                raise Refused(
                    f"source expected a file that says its architecture, received {self.source!r}: "
                    "build the model and pass it to load_weights, or save it as .keras."
                )
            else:
                self.model = model.__class__.from_config(model.get_config())
                self.model.load_weights(path)
            if not isinstance(self.model, keras.Model):
                raise ValueError(f"it holds a {type(self.model).__name__}")
        except Refused:
            raise
        except Exception as error:  # Keras lets h5py's, zipfile's and its own errors through
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ValueError(f"source expected a Keras file that fits, received {self.source!r}: {first}") from None
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
