"""Read the EXIF orientation of an image file, and apply it to pixels.

`graph.py` does the same in a TensorFlow graph. Both read the same places and stop at the same damage, so that a model
gets the same pixels everywhere.

JEITA CP-3451 (EXIF), ITU-T T.81 appendix B (JPEG), PNG specification 11.3.3.4 (eXIf), RFC 9649 2.7.1.5 (WebP).
H W C image.
"""

import numpy as np

MOST_SEGMENTS = 64  # maximum number of segments or chunks to read
MOST_ENTRIES = 256  # maximum number of EXIF entries to read
ORIENTATION = 0x0112  # number of the tag
# Values of the tag that reverse the rows, that reverse the columns, and that then swap both axes.
FLIPS_ROWS, FLIPS_COLUMNS, SWAPS = (3, 4, 6, 7), (2, 3, 7, 8), (5, 6, 7, 8)


def orientation_of(data: bytes) -> int:
    """Return the EXIF orientation of a JPEG, PNG or WebP file, 1 to 8; 1 if the file states none or is damaged."""
    if data[:2] == b"\xff\xd8":
        block = _in_jpeg(data)
    elif data[:8] == b"\x89PNG\r\n\x1a\n":
        block = _in_png(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        block = _in_webp(data)
    else:
        block = b""
    return _value(block.removeprefix(b"Exif\0\0"))


def apply_orientation(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Apply an EXIF orientation, 1 to 8, to the pixels (H, W, ...) of a file."""
    if orientation in FLIPS_ROWS:
        pixels = pixels[::-1]
    if orientation in FLIPS_COLUMNS:
        pixels = pixels[:, ::-1]
    return pixels.swapaxes(0, 1) if orientation in SWAPS else pixels


def _in_jpeg(data: bytes) -> bytes:
    """Return the EXIF block of a JPEG file: the first APP1 segment that begins with `Exif`.

    Only the application segments (APPn) and comments at the start of the file are searched.
    """
    at = 2
    for _ in range(MOST_SEGMENTS):
        head = data[at : at + 10].ljust(10, b"\0")
        if head[:2] == b"\xff\xff":  # any number of fill bytes may precede a marker
            at += 1
            continue
        length = int.from_bytes(head[2:4], "big")
        if head[0] != 0xFF or (head[1] & 0xF0 != 0xE0 and head[1] != 0xFE) or length < 2:
            break
        if head[1] == 0xE1 and head[4:] == b"Exif\0\0":
            return data[at + 4 : at + 2 + length]
        at += 2 + length
    return b""


def _in_png(data: bytes) -> bytes:
    """Return the EXIF block of a PNG file: the chunk `eXIf`, if it precedes the image data."""
    at = 8
    for _ in range(MOST_SEGMENTS):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if kind == b"eXIf":
            return data[at + 8 : at + 8 + length]
        if kind == b"IDAT" or len(kind) < 4:
            break
        at += 12 + length
    return b""


def _in_webp(data: bytes) -> bytes:
    """Return the EXIF block of a WebP file: the chunk `EXIF`."""
    at = 12
    for _ in range(MOST_SEGMENTS):
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if kind == b"EXIF":
            return data[at + 8 : at + 8 + length]
        if len(kind) < 4:
            break
        at += 8 + length + length % 2
    return b""


def _value(block: bytes) -> int:
    """Return the orientation in an EXIF block, which is a TIFF header and a directory."""
    order = {b"II*\0": "little", b"MM\0*": "big"}.get(block[:4])
    if order is None:
        return 1
    at = int.from_bytes(block[4:8], order)
    entries = block[at + 2 : at + 2 + 12 * min(int.from_bytes(block[at : at + 2], order), MOST_ENTRIES)]
    for start in range(0, len(entries) - 11, 12):
        tag, kind, count, value = (
            int.from_bytes(entries[start + a : start + b], order) for a, b in ((0, 2), (2, 4), (4, 8), (8, 10))
        )
        if (tag, kind, count) == (ORIENTATION, 3, 1):  # one 16-bit integer
            return value if 1 <= value <= 8 else 1
    return 1
