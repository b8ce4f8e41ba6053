"""What the kinds of files share, and the `.npz` archive."""

import contextlib
import mmap
import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from keras_vit.weights.layouts import IGNORED

_MAPPED = 32 * 2**20
_STACKED = re.compile(r"^(.*)\[(\d+)\]$")
_INTEGER = re.compile(r"(torch\.)?(u?int\d+|bool)|[IU]\d+|BOOL")  # as NumPy, torch and safetensors spell them


class Refused(ValueError):
    """A file's fault that has its own sentence."""


def plain_name(name: str) -> str:
    """The array that `name[3]` is an entry of, or the name itself."""
    stacked = _STACKED.match(name)
    return stacked[1] if stacked else name


class WeightsFile:
    """What the kinds of files share."""

    grid: tuple[int, int] | None = None  # of the position embedding, where the file says it

    def __init__(self, path: Path, config: dict):
        self.source = str(path)
        self.config = config
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.integers: dict[str, str] = {}  # arrays of integers or booleans, which are never weights: name -> dtype
        self.notes: list[str] = []  # what a report says about the file itself
        self._recent: dict[str, np.ndarray] = {}
        self._maps: list[mmap.mmap] = []
        self._mapped = 0  # bytes read since these last let go of their memory

    def _refuse(self, expected: str, received: str):
        return ValueError(f"source expected {expected}, received {received} in {self.source!r}.")

    def _takes(self, name: str, is_float: bool, dtype) -> bool:
        """Whether an array is of floats. Integers are noted, other types are refused unless they belong to training."""
        if not is_float and _INTEGER.fullmatch(str(dtype)):
            self.integers[name] = str(dtype)
        elif not is_float and not IGNORED.match(name):
            raise self.refuse_dtype(name, dtype)
        return is_float

    def refuse_dtype(self, name: str, dtype) -> Refused:
        """Return the error for an array that should hold floats."""
        return Refused(f"source expected arrays of floats, received dtype {dtype} for {name!r} in {self.source!r}.")

    def require_weights(self) -> None:
        """Raise a ValueError where the arrays alone do not say the weights."""

    def verify(self, names) -> None:
        """Raise a ValueError where the arrays of these names cannot be read as they were written."""

    def __getitem__(self, name: str) -> np.ndarray:
        stacked = _STACKED.match(name)
        if not stacked:
            return self._counted(name)
        if stacked[1] not in self._recent:  # query, key and value are asked for in turn, block by block
            if len(self._recent) == 3:
                del self._recent[next(iter(self._recent))]
            self._recent[stacked[1]] = self._counted(stacked[1])
        return self._recent[stacked[1]][int(stacked[2])]

    def _counted(self, name: str) -> np.ndarray:
        array = self._read(name)
        self._mapped += array.nbytes
        return array

    def _read(self, name: str) -> np.ndarray:
        raise NotImplementedError

    def forget(self) -> None:
        """Let go of the memory that mapped files take up once it is more than a little; it is read again on demand."""
        if self._mapped > _MAPPED and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped = 0
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Let the file go."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class NpzFile(WeightsFile):
    """An `.npz` archive. Arrays that are stored uncompressed are read in place, without a copy."""

    def __init__(self, path, config):
        super().__init__(path, config)
        self._stack = contextlib.ExitStack()
        self._members = {}
        try:
            self._file = self._stack.enter_context(path.open("rb"))
            self._zip = self._stack.enter_context(zipfile.ZipFile(self._file))
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps.append(self._map)
            for info in self._zip.infolist():
                self._add(info)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as e:
            self.close()
            if isinstance(e, Refused):
                raise
            raise self._refuse("a whole .npz archive", "something else") from None

    def _add(self, info: zipfile.ZipInfo) -> None:
        name = info.filename.removesuffix(".npy")
        with self._zip.open(info) as member:
            version = np.lib.format.read_magic(member)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            try:
                shape, in_columns, dtype = header(member)
            except ValueError:
                raise Refused(f"source expected .npy headers, received none for {name!r}.") from None
            start = member.tell()
        bfloat16 = dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None
        if not self._takes(name, dtype.kind == "f" or bfloat16, dtype):
            return
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        room = os.fstat(self._file.fileno()).st_size
        if start + size != info.file_size or info.compress_size > room or info.file_size > 1100 * room:
            raise Refused(
                f"source expected {name!r} to hold what its header says, received a header for {size} bytes "
                f"in {self.source!r}."
            )
        if name in self._members:
            raise Refused(f"source expected each array once, received {name!r} twice in {self.source!r}.")
        self.shapes[name] = tuple(shape)
        self._members[name] = (info, start, shape, "F" if in_columns else "C", dtype)

    def verify(self, names):
        for name in sorted({plain_name(name) for name in names}):
            info = self._members[name][0]
            try:
                if info.compress_type == zipfile.ZIP_STORED:
                    at = self._data_offset(info)
                    with memoryview(self._map) as view, view[at : at + info.file_size] as data:
                        whole = len(data) == info.file_size and zlib.crc32(data) == info.CRC
                else:
                    with self._zip.open(info) as member:
                        while member.read(1 << 22):
                            pass
                    whole = True
            except (OSError, EOFError, zipfile.BadZipFile, zlib.error):
                whole = False
            if not whole:
                raise self._refuse(f"{name!r} as it was written", "damaged bytes")

    def _data_offset(self, info: zipfile.ZipInfo) -> int:
        """Where a stored member's bytes begin: the lengths of name and extra field stand in its local header."""
        at = info.header_offset
        name, extra = (int.from_bytes(self._map[at + i : at + i + 2], "little") for i in (26, 28))
        return at + 30 + name + extra

    def _read(self, name):
        info, start, shape, order, dtype = self._members[name]
        if info.compress_type == zipfile.ZIP_STORED:
            offset = self._data_offset(info) + start
            array = np.ndarray(shape, dtype, self._map, offset, order=order)
        else:
            data = self._zip.read(info)
            array = np.ndarray(shape, dtype, data, start, order=order)
        return as_float(array)

    def close(self):
        self._stack.close()


def as_float(array: np.ndarray) -> np.ndarray:
    """The array, from bfloat16 where it is raw pairs of bytes."""
    if array.dtype.kind == "V":  # bfloat16, which NumPy has no name for: the upper half of a float32
        return (array.view("<u2").astype("<u4") << 16).view("<f4")
    return array
