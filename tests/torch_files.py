"""Torch's files, written without torch: the pickle's operations by hand, protocol 2 as torch has it."""

import struct
import zipfile
from dataclasses import dataclass, field

import numpy as np

_STORAGES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage"}


@dataclass(frozen=True)
class Made:
    """An object of a class: `Made("argparse", "Namespace", {"epochs": 3})`."""

    module: str
    name: str
    state: dict = field(default_factory=dict)


def save(path, value, folder="archive"):
    """Write a value of dicts, tuples, strings, numbers, arrays and `Made` objects as `torch.save` does."""
    storages = []
    data = b"\x80\x02" + _pickled(value, storages) + b"."
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{folder}/data.pkl", data)
        file.writestr(f"{folder}/byteorder", "little")
        for key, array in enumerate(storages):
            file.writestr(f"{folder}/data/{key}", array.tobytes())
        file.writestr(f"{folder}/version", "3\n")


def save_old(path, value):
    """As `save`, in the form that torch wrote before 1.6."""
    storages = []
    pickles = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    whole = b"".join(b"\x80\x02" + _pickled(part, []) + b"." for part in pickles)
    whole += b"\x80\x02" + _pickled(value, storages, old=True) + b"."
    whole += b"\x80\x02" + b"](" + b"".join(_pickled(str(key), []) for key in range(len(storages))) + b"e."
    whole += b"".join(struct.pack("<q", array.size) + array.tobytes() for array in storages)
    path.write_bytes(whole)


def _pickled(value, storages, old=False):
    each = lambda values: b"".join(_pickled(x, storages, old) for x in values)  # noqa: E731
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        digits = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(digits)]) + digits
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, tuple):
        return b"(" + each(value) + b"t"
    if isinstance(value, dict):
        return b"}(" + each(part for pair in value.items() for part in pair) + b"u"
    if isinstance(value, Made):
        return _name(value.module, value.name) + b")\x81" + _pickled(value.state, storages, old) + b"b"
    value = np.array(value, order="C")
    storages.append(value)
    kind = _name("torch", _STORAGES[value.dtype.str[1:]])
    storage = b"(" + each(("storage",)) + kind + each((str(len(storages) - 1), "cpu", value.size))
    storage += (b"N" if old else b"") + b"tQ"
    strides = tuple(stride // value.itemsize for stride in value.strides)
    hooks = _name("collections", "OrderedDict") + b")R"
    arguments = b"(" + storage + each((0, value.shape, strides, False)) + hooks + b"t"
    return _name("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def _name(module, name):
    return b"c" + f"{module}\n{name}\n".encode()
