"""Define the base class of weight files, and read `.npz` archives."""

import contextlib
import math
import mmap
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.layouts import IGNORED
from keras_vit.weights.views import plain_name, view_of

_MAPPED = 32 * 2**20
_SMALL = 64 * 2**20  # bytes of arrays that any file may declare
_MAX_EXPANSION = 100  # maximum ratio of arrays to file size; compression saves about a tenth of trained weights
_INTEGER = re.compile(r"(torch\.)?(u?int\d+|bool)|[IU]\d+|BOOL")  # names in NumPy, torch and safetensors


class Refused(ValueError):
    """Raised for a fault of a file that needs a specific message."""


class WeightsFile:
    """Base class of weight files."""

    grid: tuple[int, int] | None = None  # grid of the position embedding, if the file states it
    catalogue_spec: ImageSpec | None = None  # preprocessing in the catalogue, for files whose configs state none

    def __init__(self, path: Path, config: dict):
        self.source = str(path)
        self.size = path.stat().st_size
        self.config = config
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.integers: dict[str, str] = {}  # name -> dtype of integer and boolean arrays, which are never weights
        self.notes: list[str] = []  # sentences about the file for the report
        self._recent: dict[str, np.ndarray] = {}
        self._maps: list[mmap.mmap] = []
        self._mapped = 0  # bytes read since the maps last released their memory

    def _refuse(self, expected: str, received: str):
        return ValueError(f"source expected {expected}, received {received} in {self.source!r}.")

    def _takes(self, name: str, is_float: bool, dtype) -> bool:
        """Return whether an array holds floats. Record integers, and refuse other dtypes outside training state."""
        if not is_float and _INTEGER.fullmatch(str(dtype)):
            self.integers[name] = str(dtype)
        elif not is_float and not IGNORED.match(name):
            raise self.refuse_dtype(name, dtype)
        return is_float

    def refuse_dtype(self, name: str, dtype) -> Refused:
        """Return the error for an array that does not hold floats."""
        return Refused(f"source expected arrays of floats, received dtype {dtype} for {name!r} in {self.source!r}.")

    def require_weights(self) -> None:
        """Raise a ValueError if the arrays alone do not determine the weights."""

    def require_plausible_sizes(self) -> None:
        """Raise Refused if the arrays are implausibly large for the size of the file."""
        require_plausible(4 * sum(map(math.prod, self.shapes.values())), self.size, self.source)

    def verify(self, names) -> None:
        """Raise a ValueError if the named arrays do not match their checksums."""

    def __getitem__(self, name: str) -> np.ndarray:
        name, view = view_of(name)
        if view is None:
            return self._counted(name)
        if name not in self._recent:  # callers read query, key and value in turn, block by block
            if len(self._recent) == 3:
                del self._recent[next(iter(self._recent))]
            self._recent[name] = self._counted(name)
        return view(self._recent[name])

    def _counted(self, name: str) -> np.ndarray:
        array = self._read(name)
        self._mapped += array.nbytes
        return array

    def _read(self, name: str) -> np.ndarray:
        raise NotImplementedError

    def release_memory(self) -> None:
        """Release the memory of mapped files after 32 MB; later reads map it again."""
        if self._mapped > _MAPPED and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped = 0
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class MappedZip:
    """A zip archive whose uncompressed members are read in place from a memory map."""

    def __init__(self, path: Path):
        self._stack = contextlib.ExitStack()
        try:
            file = self._stack.enter_context(path.open("rb"))
            self._zip = self._stack.enter_context(zipfile.ZipFile(file))
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except BaseException:
            self.close()
            raise
        self.infos = self._zip.infolist()
        self.open = self._zip.open
        self.read = self._zip.read  # checks the member's CRC

    def offset(self, info: zipfile.ZipInfo) -> int:
        """Return the offset of an uncompressed member's data, which follows its local header."""
        at = info.header_offset
        name, extra = (int.from_bytes(self.map[at + i : at + i + 2], "little") for i in (26, 28))
        return at + 30 + name + extra

    def is_whole(self, info: zipfile.ZipInfo) -> bool:
        """Return whether a member's data matches its recorded CRC."""
        try:
            if info.compress_type == zipfile.ZIP_STORED:
                at = self.offset(info)
                with memoryview(self.map) as view, view[at : at + info.file_size] as data:
                    return len(data) == info.file_size and zlib.crc32(data) == info.CRC
            with self.open(info) as member:
                while member.read(1 << 22):
                    pass
            return True
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error):
            return False

    def close(self):
        self._stack.close()


class NpzFile(WeightsFile):
    """An `.npz` archive. Uncompressed arrays are read in place, without a copy."""

    def __init__(self, path, config):
        super().__init__(path, config)
        self._zip, self._members = None, {}
        try:
            self._zip = MappedZip(path)
            self._maps.append(self._zip.map)
            for info in self._zip.infos:
                self._add(info)
        except Refused:
            self.close()
            raise
        except Exception:  # zipfile does not document what it raises for damaged archives
            self.close()
            raise self._refuse("a whole .npz archive", "something else") from None

    def _add(self, info: zipfile.ZipInfo) -> None:
        name = info.filename.removesuffix(".npy")
        with self._zip.open(info) as member:
            version = np.lib.format.read_magic(member)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            try:
                shape, in_columns, dtype = header(member)
            except Exception:  # NumPy parses the header as Python, which raises many types
                raise Refused(f"source expected .npy headers, received none for {name!r} in {self.source!r}.") from None
            start = member.tell()
        bfloat16 = dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None
        if not self._takes(name, dtype.kind == "f" or bfloat16, dtype):
            return
        size = math.prod(shape) * dtype.itemsize
        if start + size != info.file_size or info.compress_size > self.size or info.file_size > 1100 * self.size:
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
            if not self._zip.is_whole(self._members[name][0]):
                raise self._refuse(f"{name!r} as it was written", "damaged bytes")

    def _read(self, name):
        info, start, shape, order, dtype = self._members[name]
        if info.compress_type == zipfile.ZIP_STORED:
            array = np.ndarray(shape, dtype, self._zip.map, self._zip.offset(info) + start, order=order)
        else:
            array = np.ndarray(shape, dtype, self._zip.read(info), start, order=order)
        return as_float(array)

    def close(self):
        if self._zip is not None:
            self._zip.close()


def as_float(array: np.ndarray) -> np.ndarray:
    """Return a float array; convert raw bfloat16 values to float32."""
    if array.dtype.kind == "V":  # bfloat16 has no NumPy dtype; it is the upper half of a float32
        return (array.view("<u2").astype("<u4") << 16).view("<f4")
    return array


def checksum(array: np.ndarray) -> str:
    """Return the hexadecimal CRC-32 of an array's dtype, shape and bytes."""
    kind = f"{array.dtype.str} {list(array.shape)}".encode()
    return f"{zlib.crc32(np.ascontiguousarray(array).reshape(-1).view('u1'), zlib.crc32(kind)):08x}"


def require_plausible(size: int, file_size: int, source: str) -> None:
    """Raise Refused if a file declares implausibly large arrays for its size.

    Args:
        size: declared size of the arrays in bytes.
        file_size: size of the file in bytes.
        source: name of the file in the error message.
    """
    most = max(_SMALL, _MAX_EXPANSION * file_size)
    if size > most:
        raise Refused(
            f"source expected at most {most:,} bytes of arrays in a file of {file_size:,} bytes, received {size:,} "
            f"in {source!r}: no weights are compressed that much."
        )
