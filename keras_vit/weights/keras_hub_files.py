"""Read keras-hub's presets and `.keras` files, without keras-hub: JSON configs and HDF5 arrays."""

import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np

from keras_vit.weights.archive import WeightsFile
from keras_vit.weights.keras_file import check_hdf5
from keras_vit.weights.keras_hub_models import BACKBONES, CLASS, POSITIONS, Backbone

WEIGHTS, _HEAD = "model.weights.h5", "task.weights.h5"
_PACKAGE = "keras_hub>"
_MAX_JSON = 64 * 2**20  # bytes
_BLOCK = "encoder_block_{i:02d}/"


def find_keras_hub(path: Path) -> dict | None:
    """Return the config of a keras-hub preset folder, its `model.weights.h5` or a `.keras` file; None for others."""
    if path.suffix == ".keras":
        text = _member(path, "config.json")
    else:
        folder = path if path.is_dir() else path.parent
        known = (folder / WEIGHTS).is_file() and (path.is_dir() or path.name == WEIGHTS)
        file = folder / "config.json"
        text = file.read_bytes() if known and file.is_file() and file.stat().st_size < _MAX_JSON else b""
    try:
        config = json.loads(text or b"null")
    except (ValueError, RecursionError):
        return None
    stated = isinstance(config, dict) and str(config.get("registered_name")).startswith(_PACKAGE)
    return config if stated else None


def _member(path: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name) if archive.getinfo(name).file_size < _MAX_JSON else b""
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError):
        return b""


class KerasHubFile(WeightsFile):
    """A keras-hub preset folder or `.keras` file. Its arrays have the names and shapes of our variables.

    Args:
        path: the folder, its `model.weights.h5`, or the `.keras` file.
        config: the config that `find_keras_hub` returned.
    """

    preset = True

    def __init__(self, path: Path, config: dict):
        weights = path / WEIGHTS if path.is_dir() else path
        super().__init__(weights, {})
        whole = path.suffix == ".keras"
        nested = whole and "backbone" in config["config"]  # a task, which holds its backbone
        inner = config["config"]["backbone"] if nested else config
        self._row, self._config = self._find_row(inner), inner["config"]
        self._task = config["config"] if nested else {} if whole else _task(weights.with_name("task.json"))
        arrays = self._arrays(weights, whole, nested)
        head = weights.with_name(_HEAD)
        if not whole and head.is_file() and self._task:
            arrays |= {f"head:{name}": array for name, array in self._arrays(head, False, nested=False).items()}
        self._values = {}
        try:
            self._take(arrays)
            self.fields = self._fields()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, ValueError) and str(error).startswith("source "):
                raise
            raise self._refuse(f"the arrays of keras-hub's {self._row.name}", f"others ({error})") from None
        self.shapes = {name: value.shape for name, value in self._values.items()}

    def _find_row(self, config: dict) -> Backbone:
        name = str(config.get("registered_name")).removeprefix(_PACKAGE)
        if name not in BACKBONES:
            raise ValueError(
                f"source expected a keras-hub model with a backbone among {', '.join(BACKBONES)}, received {name!r} "
                f"in {self.source!r}."
            )
        return BACKBONES[name]

    def _arrays(self, path: Path, whole: bool, nested: bool) -> dict[str, np.ndarray]:
        """Return the float arrays of an HDF5 file by their path without `layers/` and `vars/`."""
        import h5py

        file = io.BytesIO(_member_of_model(path)) if whole else path
        check_hdf5(file, self.size, self.source)
        found = {}
        with h5py.File(file, "r") as hdf5:
            hdf5.visititems(
                lambda name, item: found.__setitem__(name, np.asarray(item)) if isinstance(item, h5py.Dataset) else None
            )
        arrays = {}
        for name, array in found.items():
            if name.startswith("optimizer") or array.dtype.kind not in "fV":
                continue
            name = name.removeprefix("layers/").replace("/vars/", ":")
            inside = re.match(r"\w+_backbone/layers/", name) if nested else None
            arrays[name[inside.end() :] if inside else f"head:{name}" if nested else name] = array.astype("float32")
        return arrays

    def _take(self, arrays: dict[str, np.ndarray]) -> None:
        """Convert keras-hub's arrays to our variables."""
        row, parts = self._row, {}
        tokens = row.tokens(self._config)
        for name, array in arrays.items():
            layer, _, index = name.rpartition(":")
            if layer.startswith("head:"):
                self._take_head(layer, int(index), array)
                continue
            if layer == row.embedding:
                if tokens[int(index)]:
                    self._values[tokens[int(index)]] = array
                continue
            block = re.match(rf"{row.start}(?:_(\d+))?/(.+)", layer)
            start = _BLOCK.format(i=int(block[1] or 0)) if block else ""
            inner = block[2] if block else layer
            attention = re.match(r"(.+)/(query|key|value|output)_dense$", inner)
            known = row.layers[attention[1] if attention else inner]
            parts.setdefault(start + known, {})[attention[2] if attention else "", int(index)] = array
        for layer, found in parts.items():
            gate = parts.get(layer.removesuffix("fc1") + "gate", {}) if layer.endswith("/fc1") else {}
            self._values |= _variables(layer, found, gate)
        if self._values.get(POSITIONS) is not None and self._values[POSITIONS].ndim == 2:
            self._values[POSITIONS] = self._values[POSITIONS][None]

    def _take_head(self, layer: str, index: int, array) -> None:
        first = layer.rpartition("/")[2].removeprefix("head:") == "dense"
        ours = "pre_logits" if first and self._task.get("intermediate_dim") else "head"
        self._values[f"{ours}/{('kernel', 'bias')[index]}"] = array

    def _fields(self) -> dict:
        config, task = self._config, self._task
        if task and (
            self._row.name not in ("ViTBackbone",) or (task.get("pooling") == "gap" and CLASS in self._values)
        ):
            raise ValueError(
                f"source expected a classifier of keras-hub's ViTBackbone on the class token, received one of "
                f"{self._row.name} with pooling={task.get('pooling')!r} in {self.source!r}."
            )
        epsilon = config.get("layer_norm_epsilon", config.get("layer_norm_eps", 1e-6))
        return {
            "num_heads": config["num_heads"],
            "activation": "gelu",
            "layer_norm_epsilon": epsilon,
            "image_size": tuple(config["image_shape"][:2]),
            "pooling": {"token": "token", "gap": "gap"}[task["pooling"]] if task else None,
            **self._row.fields(config),
        }

    def _read(self, name):
        return self._values[name]


def _task(file: Path) -> dict:
    """Return the arguments of a preset's task, if the task is a classifier."""
    try:
        config = json.loads(file.read_bytes()) if file.is_file() else {}
    except (ValueError, RecursionError):
        raise ValueError(f"source expected a JSON object in {str(file)!r}, received other text.") from None
    inner = config.get("config") if isinstance(config, dict) else None
    return inner if isinstance(inner, dict) and "num_classes" in inner else {}


def _member_of_model(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(WEIGHTS)


def _variables(layer: str, parts: dict, gate: dict) -> dict[str, np.ndarray]:
    """Return our variables of a layer.

    Args:
        layer: path of our layer.
        parts: (projection, index) -> array; the projection is empty outside of attention.
        gate: the same of the gate of an MLP.
    """
    if layer.endswith("/gate"):
        return {}
    if layer.endswith("attention"):
        return _attention(layer, parts)
    if layer.endswith("_scale"):
        return {f"{layer}/gamma": parts["", 0]}
    if layer == "position_embedding":
        return {POSITIONS: parts["", 0]}
    names = ("gamma", "beta") if layer.endswith("_norm") else ("kernel", "bias")
    values = {names[index]: array for (_, index), array in parts.items()}
    for (_, index), array in gate.items():
        values[names[index]] = np.concatenate([array, values[names[index]]], axis=-1)
    return {f"{layer}/{name}": array for name, array in values.items()}


def _attention(layer: str, parts: dict) -> dict[str, np.ndarray]:
    flat = {(word, n): x.reshape(len(x), -1) if n == 0 else x.reshape(-1) for (word, n), x in parts.items()}
    width = flat["query", 0].shape[0]
    words = ("query", "key", "value")
    values = {
        "qkv/kernel": np.concatenate([flat[word, 0] for word in words], axis=1),
        "out/kernel": parts["output", 0].reshape(-1, width),
    }
    biases = [word for word in words if (word, 1) in flat]
    if len(biases) == 3:
        values["qkv/bias"] = np.concatenate([flat[word, 1] for word in words])
    else:
        values |= {f"{word}_bias": flat[word, 1] for word in biases}
    if ("output", 1) in flat:
        values["out/bias"] = flat["output", 1]
    return {f"{layer}/{name}": array for name, array in values.items()}
