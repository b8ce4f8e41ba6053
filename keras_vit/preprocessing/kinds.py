"""Recognise the kind of an image file by its first bytes.

Sources: ITU-T T.81 (JPEG), the PNG specification, GIF89a, Microsoft's bitmap headers, RFC 9649 (WebP), TIFF 6.0,
ISO 23008-12 (HEIC) and AV1 Image File Format (AVIF).
"""

import os

HEAD = 64  # bytes that suffice to recognise the kind
KINDS = ("JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", "HEIC", "AVIF")  # kinds that the package reads
# Files with these suffixes count as images whatever their content, so that a damaged one is reported.
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".bmp", ".dib", ".webp", ".tif", ".tiff"),
    *(".heic", ".heif", ".hif", ".avif"),
)
# Camera raw files begin like TIFF files; Pillow would decode only their thumbnail.
CAMERA_RAW = (".arw", ".cr2", ".cr3", ".dng", ".nef", ".nrw", ".orf", ".pef", ".raf", ".rw2", ".sr2", ".srw")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # sizes of the second header
_HEIC = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_OTHERS = {
    b"%PDF": "PDF",
    b"8BPS": "Photoshop",
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cJXL ": "JPEG XL",
    b"\0\0\0\x0cjP  ": "JPEG 2000",
    b"<svg": "SVG",
}


def kind_of(source: bytes | str | os.PathLike) -> str | None:
    """Return which of `KINDS` a file holds, or None.

    Args:
        source: the file's bytes (the first `HEAD` suffice), or its path.

    Raises:
        OSError: the path cannot be read.
    """
    head = source[:HEAD] if isinstance(source, bytes) else _head(source)
    if head[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+") and head[8:10] != b"CR":  # CR: Canon's raw files
        return "TIFF"
    return _by_brand(head) if head[4:8] == b"ftyp" else None


def _by_brand(head: bytes) -> str | None:
    """Return HEIC or AVIF for a file in the ISO base media format; None for others, such as a video."""
    length = min(int.from_bytes(head[:4], "big"), len(head))
    brands = [head[8:12], *(head[i : i + 4] for i in range(16, length, 4))]
    if {b"avif", b"avis"} & set(brands):
        return "AVIF"
    return "HEIC" if _HEIC & set(brands) else None


def other_kind_of(head: bytes) -> str | None:
    """Return the name of a known kind that the package does not read, by the first bytes; else None."""
    name = next((name for start, name in _OTHERS.items() if head.startswith(start)), None)
    return name or ("video" if head[4:8] == b"ftyp" and kind_of(head) is None else None)


def is_camera_raw(path: str) -> bool:
    """Return whether a file is a camera raw file, by its name."""
    return path.lower().endswith(CAMERA_RAW)


def _head(path) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD)
