"""The kind of an image file by its first bytes."""

import io

import numpy as np
import pytest
from PIL import Image

from keras_vit.preprocessing.kinds import KINDS, kind_of, other_kind_of

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), "uint8"))


def saved(kind: str, mode: str = "RGB", **options) -> bytes:
    buffer = io.BytesIO()
    PICTURE.convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


WRITTEN = {
    "JPEG": [saved("JPEG"), saved("JPEG", "CMYK", progressive=True), saved("MPO", save_all=True)],
    "PNG": [saved("PNG"), saved("PNG", save_all=True, append_images=[PICTURE.rotate(90)])],
    "GIF": [saved("GIF")],
    "BMP": [saved("BMP", mode) for mode in ("RGB", "P", "1")],
    "WebP": [saved("WEBP"), saved("WEBP", "RGBA", lossless=True)],
    "TIFF": [saved("TIFF"), saved("TIFF", compression="tiff_lzw"), saved("TIFF", big_tiff=True)],
    "AVIF": [saved("AVIF")],
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_file_is_what_its_bytes_say_whatever_its_name(kind, tmp_path):
    assert kind in KINDS
    for data in WRITTEN[kind]:
        assert kind_of(data) == kind_of(data[:64]) == kind
        (tmp_path / "IMG_0001.txt").write_bytes(data)
        assert kind_of(tmp_path / "IMG_0001.txt") == kind


def test_heic_is_told_from_avif_and_from_video():
    def box(*brands):
        return (8 + 4 * len(brands) + 4).to_bytes(4, "big") + b"ftyp" + brands[0] + bytes(4) + b"".join(brands[1:])

    assert kind_of(box(b"heic", b"mif1", b"heic")) == kind_of(box(b"mif1", b"mif1", b"heic")) == "HEIC"
    assert kind_of(box(b"mif1", b"avif", b"mif1")) == "AVIF"
    assert kind_of(box(b"isom", b"isom", b"mp41")) is None and other_kind_of(box(b"isom", b"mp41")) == "video"


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8", b"BM, a text", b"RIFF\0\0\0\0WAVE", b"II*\0\x10\0\0\0CR\2\0", b"%PDF-1"]
)
def test_what_is_no_image_of_these_kinds_is_none(data):
    assert kind_of(data) is None


def test_a_file_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        kind_of(tmp_path / "gone.jpg")
