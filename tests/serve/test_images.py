"""Image files in requests. An unreadable file does not affect the others."""

import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from serving import b64, damaged, encoded, picture
from support import first_quick, needs_tensorflow

from keras_vit.preprocessing.inputs import load_image, preprocess_input

pytestmark = needs_tensorflow


def rotated() -> bytes:
    """Return a photograph with an EXIF orientation of 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(picture(), "JPEG", exif=exif)


SORTS = {
    "one pixel": lambda: encoded(picture().resize((1, 1)), "PNG"),
    "CMYK JPEG": lambda: encoded(picture().convert("CMYK"), "JPEG"),
    "grey": lambda: encoded(picture().convert("L"), "JPEG"),
    "alpha": lambda: encoded(picture().convert("RGBA"), "PNG"),
    "EXIF-rotated": rotated,
    "a photograph with its thumbnail": lambda: animation("MPO"),
}


@pytest.mark.parametrize("sort", SORTS)
def test_sorts_of_image_files_are_read_as_preprocess_reads_them(server, own, sort):
    """The server applies EXIF orientations, as `predict` does."""
    data = SORTS[sort]()
    given = tf.constant(preprocess_input(load_image(data, (16, 16, 3)))[None])
    expected = own()["serving_default"](images=given)["probabilities"].numpy()[0]
    status, answer = server.predict("photos", {"signature_name": "classify_bytes", "instances": [b64(data)]})
    assert status == 200
    assert np.allclose(answer["predictions"][0]["probabilities"], expected, atol=2e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_of_16_bits_is_read_by_its_high_bytes(server, own, channels):
    wide = np.random.default_rng(0).integers(0, 65536, (16, 16, channels), "uint16")
    data = tf.io.encode_png(wide).numpy()
    wide = np.broadcast_to(wide, (16, 16, 3))
    given = tf.constant(preprocess_input((wide >> 8).astype("float32"))[None])
    expected = own()["serving_default"](images=given)["probabilities"].numpy()[0]
    status, answer = server.predict("photos", {"signature_name": "classify_bytes", "instances": [b64(data)]})
    assert status == 200
    assert np.allclose(answer["predictions"][0]["probabilities"], expected, atol=1e-4)


def bomb() -> bytes:
    """Return a small PNG file of 80 megapixels: 10,000 x 8,000 of one bit."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 10_000, 8_000, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(8_000 * 1_251), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def photo_cd() -> bytes:
    """A JPEG file of 169 megapixels, which Pillow reads as a Photo CD file of 768 x 512."""
    data = encoded(picture(), "JPEG")
    at = data.index(b"\xff\xc0") + 5
    data = data[:at] + struct.pack(">HH", 13_000, 13_000) + data[at + 4 :]
    return data[:2] + b"\xff\xfe\x08\x80" + bytes(2042) + b"PCD_IPI" + bytes(125) + data[2:]


def scans() -> bytes:
    data = encoded(picture(), "JPEG", progressive=True)
    return data[:-2] + 390 * data[data.rindex(b"\xff\xda") : -2] + data[-2:]


def animation(kind: str) -> bytes:
    return encoded(picture(), kind, save_all=True, append_images=[picture(1), picture(2)])


BAD = {
    "no image": (lambda: b"no image", "expected an image file (JPEG, PNG, GIF or WebP), received 8 other bytes."),
    "empty": (lambda: b"", "expected an image file (JPEG, PNG, GIF or WebP), received 0 other bytes."),
    "no whole header": (lambda: encoded(picture(), "JPEG")[:100], ", received 100 other bytes."),
    "a Photo CD to Pillow": (photo_cd, "expected an image of at most 1,000,000 pixels, received 13000 x 13000."),
    "endless scans": (scans, "expected a JPEG file of at most 64 scans at its size, received 400."),
    "animated PNG": (lambda: animation("PNG"), "expected one image, received an animation."),
    "corrupt JPEG": (damaged, f"expected a whole image, received a damaged JPEG file of {len(damaged())} bytes."),
    "bomb": (bomb, "expected an image of at most 1,000,000 pixels, received 10000 x 8000."),
    "animated GIF": (lambda: animation("GIF"), "expected one image, received an animation."),
    "animated WebP": (lambda: animation("WEBP"), "expected one image, received an animation."),
}


@pytest.mark.parametrize("name", first_quick(BAD, 3))
def test_a_bad_image_gets_its_sentence_and_spoils_no_other(server, own, name):
    make, sentence = BAD[name]
    bad, good = make(), encoded(picture(), "PNG")
    body = {"signature_name": "classify_bytes", "instances": [b64(good), b64(bad)]}
    status, answer = server.predict("photos", body)
    assert status == 200
    fine, refused = answer["predictions"]
    expected = own()["classify_bytes"](image_bytes=tf.constant([good]))
    assert np.allclose(fine["probabilities"], expected["probabilities"][0], atol=1e-5)
    assert not fine["error"]
    assert refused["error"].endswith(sentence)
    status, answer = server.predict("photos", {"examples": [{"image_bytes": b64(bad)}]}, "classify")
    assert status == 400
    assert answer["error"].endswith(sentence)


def test_a_bad_image_has_its_entry_in_the_open_inference_protocol_too(server, own):
    good, bad = encoded(picture(), "PNG"), damaged()
    tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [2], "parameters": {"content_type": "base64"}}
    tensor["data"] = [b64(data)["b64"] for data in (good, bad)]
    status, answer = server.ask("POST", "/v2/models/photos/infer", {"inputs": [tensor]})
    found = {output["name"]: np.reshape(output["data"], output["shape"]) for output in answer["outputs"]}
    assert status == 200
    expected = own()["classify_bytes"](image_bytes=tf.constant([good]))["probabilities"][0]
    assert np.allclose(found["probabilities"][0], expected, atol=1e-5)
    assert found["error"][0] == "" and "damaged JPEG" in found["error"][1]
