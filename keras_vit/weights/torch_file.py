"""Read torch's files (`.pth`, `.pt`, `.bin`, `.ckpt`, `.pth.tar`) without torch and without running their code."""

import math
import mmap
import os
import zipfile
from dataclasses import dataclass

import numpy as np

from keras_vit.weights.archive import MappedZip, Refused, WeightsFile, as_float
from keras_vit.weights.pickles import Inert, Name, Tensor, Unknown, read_pickle
from keras_vit.weights.timm_architectures import timm_architectures
from keras_vit.weights.views import plain_name

TORCH_SUFFIXES = (".pth", ".pt", ".bin", ".pth.tar", ".ckpt")

# Keys of a model's state in checkpoints, in order of preference: averaged weights, as timm and DeiT evaluate them, and
# DINO's teacher, and I-JEPA's encoder, as timm and transformers read it.
_STATES = ("state_dict_ema", "state_dict", "model_ema", "model", "module", "teacher", "student", "network", "net")
_STATES += ("encoder", "target_encoder")
_MOCO_V3 = {"vit_small": {"model_args": {"num_heads": 12}}}  # MoCo v3's S has twice the heads of others
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "V2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "UntypedStorage": "u1",
}
_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of files before torch 1.6
_MAX_PICKLE = 64 * 2**20  # bytes; the pickles of large public checkpoints have a few MB
_RESAVE = (
    "if you trust the file, write its weights again with torch: "
    "torch.save(torch.load(FILE, weights_only=False)['state_dict'], NEW), with the key that they have in it"
)


@dataclass(frozen=True)
class _Storage:
    """Values of tensors: their place in the file, their dtype and their number."""

    key: str
    dtype: str
    count: int


class TorchFile(WeightsFile):
    """A torch state dict, or a checkpoint that contains one. Tensors are read in place, without a copy."""

    def __init__(self, path, config):
        super().__init__(path, config)
        self._zip = None
        try:
            state = self._open_zip(path) if zipfile.is_zipfile(path) else self._open_old(path)
            self._take(state)
        except Unknown as error:
            self.close()
            raise Refused(f"source expected a torch file of tensors and plain values, received {str(error)!r} in "
                          f"{self.source!r}, which only code can read; {_RESAVE}.") from None  # fmt: skip
        except Refused:
            self.close()
            raise
        except Exception:  # damaged pickles raise many types
            self.close()
            raise self._refuse("a torch state dict of plain tensors", "something else") from None

    def _open_zip(self, path):
        self._zip = MappedZip(path)
        self._maps.append(self._zip.map)
        members = {info.filename: info for info in self._zip.infos}
        (pickled,) = (name for name in members if name.rpartition("/")[2] == "data.pkl")
        folder = pickled.removesuffix("data.pkl")
        if f"{folder}byteorder" in members and self._zip.read(members[f"{folder}byteorder"]) != b"little":
            raise Refused(f"source expected little-endian values, received others in {self.source!r}; {_RESAVE}.")
        if members[pickled].file_size > _MAX_PICKLE:
            raise ValueError("the pickle is too large")
        self._members = {name.removeprefix(f"{folder}data/"): info for name, info in members.items()}
        self._parts = {}
        return read_pickle(self._zip.read(members[pickled]), self._storage_in_zip)

    def _storage_in_zip(self, identity):
        storage = _storage(identity)
        info = self._members[storage.key]
        size = storage.count * np.dtype(storage.dtype).itemsize
        if info.compress_type != zipfile.ZIP_STORED or info.file_size < size:
            raise ValueError("a storage is shorter than the pickle says")
        self._parts[storage.key] = self._zip.offset(info)
        return storage

    def _open_old(self, path):
        """Read a file before torch 1.6: several pickles, then the storages."""
        storages = {}

        def remember(identity):
            storage = _storage(identity)
            if storages.setdefault(storage.key, storage) != storage:
                raise ValueError("one storage has two types")
            return storage

        with path.open("rb") as file:
            if read_pickle(file, remember) != _MAGIC:
                raise ValueError("no torch file")
            for _ in range(2):  # the version of the format, and the machine's sizes
                read_pickle(file, remember)
            state, keys = read_pickle(file, remember), read_pickle(file, remember)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps.append(self._map)
            at, self._parts, end = file.tell(), {}, os.fstat(file.fileno()).st_size
        for key in keys:
            storage = storages[key]
            self._parts[key] = at + 8
            if int.from_bytes(self._map[at : at + 8], "little") != storage.count:
                raise ValueError("a storage has another length than the pickle says")
            at += 8 + storage.count * np.dtype(storage.dtype).itemsize
        if at > end or storages.keys() - self._parts.keys():
            raise ValueError("the file ends too early")
        return state

    def _take(self, state):
        """Find the model's state in a checkpoint, and its tensors."""
        architecture = state.get("arch") if isinstance(state, dict) else None
        for _ in _STATES:
            keys = [key for key in _STATES if isinstance(state, dict) and isinstance(state.get(key), dict)]
            if not keys:
                break
            if len(keys) > 1:
                self.notes.append(f"the file holds {' and '.join(map(repr, keys))}; {keys[0]!r} was read")
            state = state[keys[0]]
        if isinstance(state, Inert):
            raise Unknown(state.kind.full.replace(" ", "."))
        if not isinstance(state, dict):
            raise ValueError("no dict")
        self._tensors = {}
        for name, tensor in state.items():
            if not isinstance(tensor, Tensor):
                continue
            dtype = tensor.dtype or _dtype_name(tensor.storage.dtype)
            if self._takes(name, tensor.dtype is None and np.dtype(tensor.storage.dtype).kind in "fV", dtype):
                _require_room(tensor)
                self._tensors[name] = tensor
                self.shapes[name] = tensor.shape
        if not self._tensors or not all(isinstance(name, str) for name in state):
            raise ValueError("no tensors")
        if not self.config and isinstance(architecture, str):
            wrapped = all(name.startswith("module.") for name in self._tensors)
            known = {"architecture": architecture} if architecture in timm_architectures() else {}
            self.config = _MOCO_V3.get(architecture, known) if wrapped else known

    def verify(self, names):
        if self._zip is None:
            return  # torch's older files have no checksums
        for name in sorted({plain_name(name) for name in names}):
            if not self._zip.is_whole(self._members[self._tensors[name].storage.key]):
                raise self._refuse(f"{name!r} as it was written", "damaged bytes")

    def _read(self, name):
        tensor = self._tensors[name]
        dtype = np.dtype(tensor.storage.dtype)
        if not math.prod(tensor.shape):
            return np.zeros(tensor.shape, "float32")
        offset = self._parts[tensor.storage.key] + tensor.offset * dtype.itemsize
        strides = [stride * dtype.itemsize for stride in tensor.strides]
        return as_float(np.ndarray(tensor.shape, dtype, self._maps[0], offset, strides))

    def close(self):
        self._tensors, self._maps = {}, []
        if self._zip is not None:
            self._zip.close()


def _storage(identity) -> _Storage:
    """Return the storage of a persistent id: ("storage", type, key, device, count), and a view in old files."""
    what, kind, key, _, count, *view = identity
    if what != "storage" or not isinstance(kind, Name) or not isinstance(key, str) or any(view):
        raise ValueError("a persistent id is no storage's")
    if type(count) is not int or count < 0:
        raise ValueError("a storage's count is no whole number")
    return _Storage(key, _DTYPES[kind.full.rpartition(" ")[2]], count)


def _dtype_name(dtype: str) -> str:
    return "bfloat16" if dtype == "V2" else np.dtype(dtype).name


def _require_room(tensor: Tensor) -> None:
    """Raise a ValueError if a tensor exceeds its storage."""
    if not isinstance(tensor.storage, _Storage):
        raise ValueError("a tensor has no storage")
    size = math.prod(tensor.shape)
    last = tensor.offset + sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.strides, strict=True))
    if size and (last >= tensor.storage.count or size > tensor.storage.count):
        raise ValueError("a tensor is larger than its storage")
