"""The measured size of an image file is the size that TensorFlow's decoder returns."""

import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from serving import encoded, picture
from support import needs_tensorflow

from keras_vit.serve.images import LARGE_PIXELS, MAX_SCANS, check
from keras_vit.serve.limits import Limits
from keras_vit.serve.measure import MAX_PARTS, measure
from keras_vit.serve.signature import Signature

pytestmark = needs_tensorflow
BIG = (3000, 2000)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def riff(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def canvas(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X" + struct.pack("<I", 10) + bytes(4) + sides


def jpeg(**options) -> bytes:
    return encoded(picture(), "JPEG", **options)


def before_size(data: bytes, inserted: bytes) -> bytes:
    """Return a JPEG file with bytes inserted before its SOF0 segment."""
    at = data.index(b"\xff\xc0")
    return data[:at] + inserted + data[at:]


def sof(width: int, height: int) -> bytes:
    data = jpeg()
    at = data.index(b"\xff\xc0")
    return data[at : at + 5] + struct.pack(">HH", height, width) + data[at + 9 : at + 19]


def with_photo_cd() -> bytes:
    """Return a JPEG file of 6 megapixels that Pillow reads as a Photo CD file of 768 x 512."""
    data = encoded(Image.new("L", BIG), "JPEG")
    comment = bytes(2048 - 6) + b"PCD_IPI" + bytes(100)
    return data[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + data[2:]


def with_thumbnail() -> bytes:
    small = encoded(picture().resize((8, 8)), "JPEG")
    return jpeg()[:2] + b"\xff\xe1" + struct.pack(">H", len(small) + 2) + small + jpeg()[2:]


def gif_of(screen, frame) -> bytes:
    """Return a GIF file whose screen and whose image have different sizes."""
    data = encoded(Image.new("L", frame), "GIF")
    return data[:6] + struct.pack("<HH", *screen) + data[10:]


def scans(count: int, size=(64, 64)) -> bytes:
    """Return a progressive JPEG file with its last scan repeated."""
    data = encoded(Image.new("RGB", size), "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * (count - data.count(b"\xff\xda")) + data[-2:]


PNG, LOSSLESS = encoded(picture(), "PNG"), encoded(picture(), "WEBP", lossless=True)
WHOLE = {
    "JPEG": jpeg(),
    "progressive JPEG": jpeg(progressive=True),
    "a Photo CD to Pillow": with_photo_cd(),
    "thumbnail in front": with_thumbnail(),
    "bytes between segments": before_size(jpeg(), b"none\x01\xff\x00"),
    "fill bytes": before_size(jpeg(), b"\xff" * 9),
    "markers without a length": before_size(jpeg(), b"\xff\x01\xff\xd0"),
    "segment of length 0": before_size(jpeg(), b"\xff\xfe\0\0"),
    "size inside a comment": before_size(jpeg(), b"\xff\xfe\0\x15" + sof(*BIG)),
    "film behind the image": jpeg() + b"\xff\xda\0\4\xff\xfe" * 999,
    "PNG": PNG,
    "PNG with text": PNG[:33] + chunk(b"zTXt", b"k\0\0" + zlib.compress(b"text")) + PNG[33:],
    "GIF": encoded(picture(), "GIF"),
    "GIF larger than its screen": gif_of((5, 5), BIG),
    "WebP": encoded(picture(), "WEBP"),
    "lossless WebP": LOSSLESS,
    "alpha WebP": encoded(picture().convert("RGBA"), "WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0"),
    "WebP with canvas": riff(canvas(37, 29), LOSSLESS[12:]),
}
REFUSED_BY_THE_DECODER = {
    "two sizes": before_size(jpeg(), sof(*BIG)),
    "two headers": PNG[:33] + chunk(b"IHDR", struct.pack(">II", *BIG) + PNG[24:29]) + PNG[33:],
    "smaller canvas": riff(canvas(5, 5), LOSSLESS[12:]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_size_measured_is_the_size_decoded(name):
    found = measure(WHOLE[name])
    decoded = tf.io.decode_image(found.data, expand_animations=False)
    assert (found.height, found.width) == tuple(decoded.shape[:2])
    assert not found.animated
    assert np.array_equal(decoded, tf.io.decode_image(WHOLE[name], expand_animations=False))


@pytest.mark.parametrize("name", REFUSED_BY_THE_DECODER)
def test_a_file_of_two_sizes_is_none_to_the_decoder(name):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(REFUSED_BY_THE_DECODER[name], expand_animations=False)


def test_scans_are_counted_up_to_the_end_of_the_image():
    assert measure(jpeg()).scans == 1
    assert measure(jpeg(progressive=True)).scans == 10
    assert measure(scans(400)).scans == 400
    assert measure(WHOLE["film behind the image"]).scans == 1


def test_compressed_text_is_left_out_and_other_chunks_stay():
    found = measure(WHOLE["PNG with text"])
    assert found.data == PNG
    assert measure(PNG).data is PNG


ENDLESS = {
    "JPEG segments": jpeg()[:20] + b"\xff\xfe\0\2" * (MAX_PARTS + 1) + jpeg()[20:],
    "PNG chunks": PNG[:33] + chunk(b"teSt", b"") * (MAX_PARTS + 1) + PNG[33:],
    "GIF blocks": encoded(picture(), "GIF")[:-1] + b"!\xfe\1a\0" * 200_000 + b";",
    "WebP chunks": riff(canvas(37, 29), b"EXIF\0\0\0\0" * (MAX_PARTS + 1), LOSSLESS[12:]),
    "no size": jpeg()[:100],
    "empty size": PNG[:16] + bytes(8) + PNG[24:],
    "BMP": encoded(picture(), "BMP"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_files_without_end_or_size_are_no_image_files(name):
    assert measure(ENDLESS[name]) is None


# What follows from it


@pytest.fixture
def signature():
    files = tf.TensorSpec((None,), tf.string, name="image_bytes")
    error = tf.TensorSpec((None,), tf.string, name="error")
    return Signature("classify_bytes", {"image_bytes": files}, {"error": error}, None, None, 32, None)


def checked(signature, *files, **limits):
    return check(signature, {"image_bytes": np.array(files, object)}, Limits(**limits))


def test_large_images_are_computed_alone_and_small_ones_together(signature):
    small, large = PNG, encoded(Image.new("L", (LARGE_PIXELS // 1000 + 1, 1000)), "PNG")
    assert not checked(signature, small, small, small).large
    call = checked(signature, large, small, b"no image", small, large, small)
    assert [(piece.start, piece.stop, piece.large) for piece in call.pieces] == [
        (0, 1, True), (1, 4, False), (4, 5, True), (5, 6, False)]  # fmt: skip
    assert call.large and list(call.refused) == [2] and call.inputs["image_bytes"][2] == b""
    assert checked(signature, scans(MAX_SCANS)).large


def test_work_past_the_limits_is_refused(signature):
    refused = checked(signature, scans(MAX_SCANS + 1)).refused
    assert refused == {0: "image_bytes 0 expected a JPEG file of at most 64 scans at its size, received 65."}
    refused = checked(signature, scans(30), max_pixels=64 * 64).refused
    assert refused == {0: "image_bytes 0 expected a JPEG file of at most 20 scans at its size, received 30."}
    with pytest.raises(Exception, match=r"^the request expected images of at most 3,000 pixels in all, received 3,219"):
        checked(signature, PNG, PNG, PNG, max_request_pixels=3000)


def test_base64_text_of_an_image_file_is_read_as_the_file(signature):
    import base64

    text = base64.b64encode(jpeg())
    for sent in (text, b"data:image/jpeg;base64," + text):
        (file,) = checked(signature, sent).inputs["image_bytes"]
        assert file == jpeg()
    assert list(checked(signature, text[:-1] + b"!").refused) == [0]
