"""Read the size of an image file from its headers, without decoding.

Each function reads a file as TensorFlow's decoder does (libjpeg-turbo, libpng, giflib, libwebp). No file can show one
size here and another size to the decoder.
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from keras_vit.preprocessing.kinds import kind_of

MAX_PARTS = 65_536  # segments of a JPEG file or chunks of a PNG file; real files have a few thousand
MAX_MARKERS = 524_288  # bytes of a JPEG file that look like markers, also in an appended video
MAX_GIF_BLOCKS = 262_144  # blocks of at most 255 bytes; enough for 60 MB
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SOS, _EOI = 0xDA, 0xD9
_IS_MARKER = np.isin(
    np.arange(256), [0x00, 0x01, *range(0xD0, 0xD8), 0xFF], invert=True
)  # indexed by the byte after 0xFF
_TEXT = (b"zTXt", b"iTXt")  # many compressed text chunks keep libpng busy for seconds


@dataclass(frozen=True)
class Measured:
    """The measurements of an image file.

    Args:
        data: the file. A PNG file has no compressed text chunks, which do not affect the pixels.
        width: width of the decoded image in pixels.
        height: height of the decoded image in pixels.
        scans: number of passes over all pixels; more than 1 only in JPEG files.
        animated: whether the file holds several images.
    """

    data: bytes
    width: int
    height: int
    scans: int = 1
    animated: bool = False

    @property
    def pixels(self) -> int:
        return self.width * self.height


def measure(data: bytes) -> Measured | None:
    """Measure a JPEG, PNG, GIF or WebP file; return None for other files and damaged headers."""
    reader = {"JPEG": _jpeg, "PNG": _png, "GIF": _gif, "WebP": _webp}.get(kind_of(data))
    try:
        measured = reader and reader(data)
    except (IndexError, struct.error):  # the file ends before its size
        return None
    return measured if measured and measured.pixels else None


def _jpeg(data: bytes) -> Measured | None:
    """Read the segments (ITU-T T.81, annex B). Between segments libjpeg skips bytes that are no marker."""
    values = np.frombuffer(data, np.uint8)
    markers = np.flatnonzero((values[:-1] == 0xFF) & _IS_MARKER[values[1:]]) + 1
    markers = markers[:MAX_MARKERS].tolist()
    size, scans, at = None, 0, 2
    for _ in range(MAX_PARTS):
        i = bisect_right(markers, at)
        if i == MAX_MARKERS:
            break
        if i == len(markers) or (marker := data[markers[i]]) == _EOI:
            return Measured(data, *size, max(scans, 1)) if size else None
        at = markers[i] + 1
        if marker in _SOF and size is None:  # libjpeg refuses a file with a second one
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = width, height
        scans += marker == _SOS
        if marker >= 0xC0:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return None


def _png(data: bytes) -> Measured | None:
    """Read the chunks. libpng refuses a file that does not begin with its header, or has two headers."""
    if data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    images, at, parts, begin = 1, 8, [], 0
    for _ in range(MAX_PARTS):
        if at + 8 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"acTL":
            (images,) = struct.unpack_from(">I", data, at + 8)
        if kind in _TEXT:
            parts.append(data[begin:at])
            begin = at + 12 + length
        at += 12 + length
        if kind == b"IEND":
            break
    else:
        return None
    whole = b"".join([*parts, data[begin:]]) if parts else data
    return Measured(whole, width, height, animated=images > 1)


def _gif(data: bytes) -> Measured | None:
    """Read the blocks. giflib allocates each image by the image's size, not by the screen's."""

    def table(flags):
        return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0

    size, blocks, at = None, 0, 13 + table(data[10])
    while at < len(data) and data[at] in b"!," and blocks <= MAX_GIF_BLOCKS:
        if data[at] == ord(","):
            if size:
                return Measured(data, *size, animated=True)
            *size, flags = struct.unpack_from("<HHB", data, at + 5)
            at += 9 + table(flags)
        at, blocks = at + 2, blocks + 1
        while at < len(data) and data[at] and blocks <= MAX_GIF_BLOCKS:
            at, blocks = at + 1 + data[at], blocks + 1
        at += 1
    return Measured(data, *size) if size and blocks <= MAX_GIF_BLOCKS else None


def _webp(data: bytes) -> Measured | None:
    """Find the image (RFC 9649). libwebp refuses an image whose size differs from the canvas."""
    if data[12:16] == b"VP8X" and data[20] & 2:
        return Measured(data, 1, 1, animated=True)
    at = 12
    for _ in range(MAX_PARTS):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind == b"VP8 ":
            width, height = struct.unpack_from("<HH", data, at + 14)
            return Measured(data, width & 0x3FFF, height & 0x3FFF)
        if kind == b"VP8L":
            bits = int.from_bytes(data[at + 9 : at + 13], "little")
            return Measured(data, (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        at += 8 + length + length % 2
    return None
