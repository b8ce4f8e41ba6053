"""EXIF orientation: all eight values, by Python and by the graph, against Pillow; damaged entries are passed over."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps
from support import needs_tensorflow

from keras_vit.preprocessing.decode import decode_image
from keras_vit.preprocessing.exif import apply_orientation, orientation_of

KINDS = ("JPEG", "PNG", "WEBP")
PIXELS = np.random.default_rng(0).integers(0, 256, (20, 36, 3), "uint8")
PICTURE = Image.fromarray(PIXELS)


def photograph(value: int, kind: str = "JPEG", order: str = "<", **options) -> bytes:
    """A file whose EXIF block holds other entries, too, in little or big endian."""
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F], exif[0x0112], exif[0x8769] = "a maker", value, {0x9000: b"0230"}
    if kind == "TIFF":  # whose own directory holds the entries
        del exif[0x8769]
    buffer = io.BytesIO()
    PICTURE.save(buffer, kind, exif=exif, **options)
    return buffer.getvalue()


def turned_by_pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def with_segments(data: bytes, *segments: bytes) -> bytes:
    """A JPEG file with other segments in front of its own."""
    return data[:2] + b"".join(segments) + data[2:]


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", 2 + len(content)) + content


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_all_eight_values_turn_as_pillow_turns(kind, order):
    for value in range(1, 9):
        data = photograph(value, kind, order)
        assert orientation_of(data) == value
        with Image.open(io.BytesIO(data)) as image:
            assert image.getexif()[0x0112] == value
        assert np.array_equal(decode_image(data), turned_by_pillow(data))
        assert np.array_equal(apply_orientation(decode_image(data, exif=False), value), turned_by_pillow(data))


@pytest.mark.parametrize("kind", ["TIFF", "AVIF"])
def test_tiff_and_avif_are_turned_as_pillow_turns_them(kind):
    for value in range(1, 9):
        data = photograph(value, kind)
        assert np.array_equal(decode_image(data), turned_by_pillow(data))
        assert decode_image(data).shape[:2] == ((36, 20) if value >= 5 else (20, 36))


def oddities() -> dict[str, tuple[bytes, int]]:
    """JPEG files and what is to be read from them."""
    plain, six = photograph(1), photograph(6)
    start = six.index(b"Exif")  # behind the marker and the length of its segment
    length = int.from_bytes(six[start - 2 : start], "big")
    tag = six.index(struct.pack("<HHI", 0x0112, 3, 1))
    jfif = segment(0xE0, b"JFIF\0\1\2\0\0\1\0\1\0\0")
    xmp, profile = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + bytes(7000)), segment(0xE2, b"ICC_PROFILE\0")

    def changed(at: int, value: bytes) -> bytes:
        return six[:at] + value + six[at + len(value) :]

    return {
        "behind JFIF": (with_segments(six, jfif), 6),
        "behind XMP, a profile and a comment": (with_segments(six, jfif, xmp, profile, segment(0xFE, b"x")), 6),
        "behind bytes that fill": (six[:2] + b"\xff\xff" + six[2:], 6),
        "the first of two": (with_segments(plain, six[start - 4 : start - 2 + length]), 6),
        "value 0": (changed(tag + 8, b"\0\0"), 1),
        "value 9": (changed(tag + 8, b"\x09\0"), 1),
        "of another type": (changed(tag + 2, b"\x04\0"), 1),
        "two numbers": (changed(tag + 4, b"\2\0\0\0"), 1),
        "no byte order": (changed(start + 6, b"XX"), 1),
        "a directory outside": (changed(start + 10, b"\xff\xff\xff\x7f"), 1),
        "a directory at 2^32": (changed(start + 10, b"\xff\xff\xff\xff"), 1),
        "a directory of itself": (changed(start + 10, b"\0\0\0\0"), 1),
        "many entries": (changed(start + 14, b"\xff\xff"), 6),
        "no entries": (changed(start + 14, b"\0\0"), 1),
        "a segment of length 0": (with_segments(six, b"\xff\xe0\0\0"), 1),
        "a segment past the end": (with_segments(six, b"\xff\xe0\xff\xff"), 1),
        "cut in the block": (six[: tag + 4], 1),
        "cut before the block": (six[: start + 5], 1),
        "too many segments": (with_segments(six, *[profile] * 70), 1),
        "in the picture's data": (plain[:-2] + six[2:], 1),
        "none": (with_segments(b"\xff\xd8\xff\xd9"), 1),
        "no JPEG": (b"no image", 1),
        "nothing": (b"", 1),
    }  # fmt: skip


@pytest.mark.parametrize("name", oddities())
def test_odd_and_damaged_entries(name):
    data, expected = oddities()[name]
    assert orientation_of(data) == expected


@needs_tensorflow
def test_the_graph_reads_what_python_reads_whatever_the_damage():
    """All values of all kinds in both orders, the oddities, and 600 files with bytes changed or cut off."""
    import tensorflow as tf

    from keras_vit.preprocessing.graph import orientation_of as orientation_in_graph

    whole = [photograph(v, kind, order) for v in range(1, 9) for kind in KINDS for order in "<>"]
    files, rng = whole + [data for data, _ in oddities().values()], np.random.default_rng(0)
    for i in range(600):
        data = bytearray(whole[rng.integers(len(whole))][:240])
        for place in rng.integers(2, len(data), rng.integers(1, 6)):
            data[place] = rng.integers(256)
        files.append(bytes(data[: rng.integers(1, len(data))] if i % 3 == 0 else data))
    found = tf.data.Dataset.from_tensor_slices(files).map(orientation_in_graph).as_numpy_iterator()
    expected = [orientation_of(data) for data in files]
    assert list(found) == expected and set(expected) == set(range(1, 9))


@needs_tensorflow
def test_the_graph_turns_pixels_and_boxes_as_python_turns_pixels():
    import tensorflow as tf

    from keras_vit.preprocessing import graph

    for value in range(1, 9):
        orientation = tf.constant(value)
        whole = apply_orientation(PIXELS, value)
        assert np.array_equal(graph.apply_orientation(tf.constant(PIXELS), orientation), whole)
        assert tuple(graph.oriented_shape(tf.constant(PIXELS.shape), orientation)) == whole.shape
        top, left, height, width = graph.stored_box(
            tf.constant((3, 5, 7, 4)), tf.constant(PIXELS.shape), orientation
        ).numpy()
        part = PIXELS[top : top + height, left : left + width]
        assert np.array_equal(apply_orientation(part, value), whole[3:10, 5:9])
