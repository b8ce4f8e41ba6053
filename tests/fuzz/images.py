"""Image files for the fuzz: of every kind, mode and orientation, whole, damaged, or two things at once."""

import io
import struct
import zlib

import numpy as np
from mutations import mutated
from PIL import Image, features

SIZES = ((37, 29), (16, 16), (1, 1), (1, 700), (513, 3), (120, 90))
MODES = {
    "JPEG": ("RGB", "L", "CMYK", "YCbCr"),
    "PNG": ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"),
    "GIF": ("P", "L"),
    "BMP": ("RGB", "L", "P", "1"),
    "WEBP": ("RGB", "RGBA"),
    "TIFF": ("RGB", "RGBA", "L", "P", "1", "CMYK", "I;16", "F"),
    "AVIF": ("RGB", "RGBA"),
}
HEADS = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"RIFF\x20\0\0\0WEBPVP8 ",
    b"BM",
    b"II*\0",
    b"%PDF-1.7",
    b"PK\3\4",
)
LIES = (0, 1, 255, 65_535, 30_000, 2**31 - 1)  # sides that a header claims


def image_file(seed: int) -> tuple[bytes, bool]:
    """An image file, or what looks like one, and whether it is as it should be; the same for the same seed."""
    rng = np.random.default_rng(seed)
    whole = whole_file(rng)
    changed = CHANGES[int(rng.integers(len(CHANGES)))](whole, rng)
    return changed, changed == whole


def whole_file(rng) -> bytes:
    """A file that is as it should be."""
    kinds = [kind for kind in MODES if kind != "AVIF" or features.check("avif")]
    kind = str(rng.choice(kinds))
    mode = str(rng.choice(MODES[kind]))
    image = _picture(rng).convert("L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image, "uint16") * 257)
    options = _options(kind, mode, rng)
    if rng.random() < 0.5 and kind in ("JPEG", "PNG", "WEBP", "AVIF"):
        options["exif"] = _exif(int(rng.integers(0, 11)))
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _picture(rng) -> Image.Image:
    size = SIZES[int(rng.integers(len(SIZES)))]
    return Image.fromarray(rng.integers(0, 256, (5, 6, 3), "uint8")).resize(size, Image.Resampling.BICUBIC)


def _options(kind, mode, rng) -> dict:
    if kind == "JPEG":
        return {"quality": int(rng.choice([20, 75, 95])), "progressive": bool(rng.random() < 0.4)}
    if kind == "WEBP":
        return {"lossless": bool(rng.random() < 0.5)}
    if kind == "TIFF" and mode not in ("1", "F"):
        return {"compression": str(rng.choice(["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"]))}
    if kind == "PNG" and rng.random() < 0.1 and mode == "RGB":
        return {"save_all": True, "append_images": [_picture(rng)]}
    return {}


def _exif(orientation: int) -> bytes:
    """Exif data; values past 8 and 0 mean nothing."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def _lying_size(whole: bytes, rng) -> bytes:
    """Another width or height in the header, with the checksum that it needs."""
    side, at = int(rng.choice(LIES)), int(rng.integers(2))
    if whole[:4] == b"\x89PNG":
        head = bytearray(whole[12:29])
        head[4 + 4 * at : 8 + 4 * at] = struct.pack(">I", side)
        return whole[:12] + bytes(head) + struct.pack(">I", zlib.crc32(head)) + whole[33:]
    if whole[:2] == b"\xff\xd8":
        place = max(whole.find(b"\xff\xc0"), whole.find(b"\xff\xc2")) + 5 + 2 * at
        return whole[:place] + struct.pack(">H", side % 65_536) + whole[place + 2 :]
    if whole[:3] == b"GIF":
        return whole[: 6 + 2 * at] + struct.pack("<H", side % 65_536) + whole[8 + 2 * at :]
    if whole[:2] == b"BM":
        return whole[: 18 + 4 * at] + struct.pack("<i", side) + whole[22 + 4 * at :]
    return mutated(whole, rng)


def _also_pcd(whole: bytes, rng) -> bytes:
    """With Kodak's signature at 2,048, where Pillow looks for it."""
    filled = whole.ljust(2048, b"\0")
    return filled[:2048] + b"PCD_" + filled[2052:] + bytes(4096)


def _another_head(whole: bytes, rng) -> bytes:
    head = HEADS[int(rng.integers(len(HEADS)))]
    return head + whole[len(head) :] if rng.random() < 0.5 else head + whole


CHANGES = (
    lambda whole, rng: whole,
    lambda whole, rng: whole,
    lambda whole, rng: mutated(whole, rng),
    lambda whole, rng: mutated(mutated(whole, rng), rng),
    lambda whole, rng: whole[: int(rng.integers(len(whole)))],
    lambda whole, rng: whole + rng.bytes(int(rng.integers(1, 400))),
    _lying_size,
    _also_pcd,
    _another_head,
    lambda whole, rng: whole + whole_file(rng),
    lambda whole, rng: rng.bytes(int(rng.integers(0, 200))),
)
