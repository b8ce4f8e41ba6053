"""Training's pixels of files of every kind and orientation are those that prediction decodes."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import needs_tensorflow

from keras_vit.data.augment import random_crop
from keras_vit.data.decode import decode, decode_crop
from keras_vit.data.evaluation import evaluation_batches, held_out
from keras_vit.data.pipeline import training_batches
from keras_vit.data.seeds import seed_pair
from keras_vit.data.sources import open_data
from keras_vit.preprocessing.decode import decode_image
from keras_vit.preprocessing.exif import apply_orientation
from keras_vit.preprocessing.inputs import load_image
from keras_vit.train.recipe import Augment, Data

pytestmark = needs_tensorflow
COARSE = np.random.default_rng(0).integers(0, 256, (5, 9, 3), "uint8")
PICTURE = Image.fromarray(COARSE).resize((72, 40), Image.Resampling.BICUBIC)
ANIMATED = {"save_all": True, "append_images": [PICTURE.rotate(90), PICTURE.rotate(180)]}
# name: (Pillow's format, mode, options)
FILES = {
    "JPEG": ("JPEG", "RGB", {}),
    "CMYK JPEG": ("JPEG", "CMYK", {}),
    "PNG": ("PNG", "RGBA", {}),
    "animated PNG": ("PNG", "RGB", ANIMATED),
    "GIF": ("GIF", "P", {}),
    "animated GIF": ("GIF", "P", ANIMATED),
    "BMP": ("BMP", "RGB", {}),
    "BMP with a palette": ("BMP", "P", {}),
    "BMP of grey": ("BMP", "L", {}),
    "BMP of one bit": ("BMP", "1", {}),
    "WebP": ("WEBP", "RGB", {}),
    "WebP with alpha": ("WEBP", "RGBA", {"lossless": True}),
    "animated WebP": ("WEBP", "RGB", ANIMATED),
    "TIFF": ("TIFF", "RGB", {}),
    "TIFF of grey": ("TIFF", "L", {"compression": "tiff_lzw"}),
    "TIFF of pages": ("TIFF", "RGB", ANIMATED),
    "AVIF": ("AVIF", "RGB", {}),
    "HEIC": ("HEIF", "RGB", {}),
}


def saved(kind: str, mode: str, options: dict) -> bytes:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif", reason="the extra `heic` is not installed").register_heif_opener()
    buffer = io.BytesIO()
    PICTURE.convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def photograph(value: int, kind: str = "JPEG", **options) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return saved(kind, "RGB", {"exif": exif, **options})


@pytest.mark.parametrize("name", FILES)
def test_training_and_prediction_decode_the_same_pixels(name):
    data = saved(*FILES[name])
    pixels = decode_image(data)
    assert pixels.shape == (40, 72, 3)
    assert np.array_equal(decode(data), pixels)
    assert np.mean(np.abs(pixels - np.asarray(PICTURE.convert(FILES[name][1]).convert("RGB")).astype(int))) < 12


@pytest.mark.parametrize("name", ["JPEG", "animated WebP", "TIFF"])
def test_a_damaged_file_is_tensorflows_error(name):
    data = saved(*FILES[name])
    with pytest.raises(tf.errors.OpError):
        decode(data[: len(data) // 3])


@pytest.mark.parametrize("value", range(1, 9))
def test_a_random_crop_is_cut_out_of_the_upright_image(value):
    turned = {"JPEG": photograph(value, quality=95), "PNG": photograph(value, "PNG"), "TIFF": photograph(value, "TIFF")}
    for kind, data in turned.items():
        whole = decode(data)
        assert np.array_equal(whole, decode_image(data))
        if kind == "JPEG":  # whose parts are decoded by the faster transform
            whole = apply_orientation(tf.io.decode_jpeg(data).numpy(), value)
        for i in range(4):
            seed = seed_pair(0, i)
            expected, found = random_crop(whole, seed, 0.2).numpy(), decode_crop(data, seed, 0.2).numpy()
            assert found.shape == expected.shape
            assert np.mean(np.abs(found.astype(int) - expected)) < (1 if kind == "JPEG" else 1e-9)


@pytest.mark.broad
def test_training_and_evaluation_turn_photographs_unless_told_otherwise(tmp_path):
    """A photograph of each value; their stored pixels are the same."""
    for value in range(1, 9):
        for split in ("train", "test"):
            folder = tmp_path / split / ("some" if value % 2 else "others")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{value}.jpg").write_bytes(photograph(value))
    shape, stored = (40, 40, 3), decode_image(photograph(6), exif=False)
    for exif in (True, False):
        data = Data("folder", directory=str(tmp_path), exif=exif)
        train, test = (open_data(data, split) for split in ("train", "test"))
        options = {"batch_size": 8, "input_shape": shape, "scale": False}
        trained = next(training_batches(train, Augment(), epochs=1, **options).as_numpy_iterator())[0]
        evaluated = next(evaluation_batches(test, **options).as_numpy_iterator())[0]
        measured = held_out(data, shape)[0]
        for files, images in ((test.files, evaluated), (test.files, measured)):
            for path, image in zip(files, images, strict=True):
                expected = load_image(path, shape) if exif else _squeezed(stored)
                assert np.allclose(image, expected, atol=1e-3)
        every = [load_image(path, shape) if exif else _squeezed(stored) for path in train.files]
        assert all(min(np.abs(image - other).max() for other in every) < 1e-3 for image in trained)
        assert len({image.round().tobytes() for image in trained}) == (8 if exif else 1)


def _squeezed(pixels):
    return tf.image.resize(pixels, (40, 40), antialias=True).numpy()


def test_the_values_differ_from_one_another():
    """What the tests above would not notice of a symmetric picture."""
    pixels = decode_image(photograph(1))
    assert len({apply_orientation(pixels, value).tobytes() + bytes([value > 4]) for value in range(1, 9)}) == 8


@pytest.mark.parametrize("place", [(0, 0), (3, 2), (60, 30)])
@pytest.mark.parametrize("more", [0, 1])
def test_a_gif_whose_first_frame_does_not_fill_its_canvas_has_tensorflows_pixels(place, more):
    data = bytearray(saved("GIF", "P", ANIMATED if more else {}))
    data[6:10] = (200).to_bytes(2, "little") + (100).to_bytes(2, "little")  # the canvas
    at = data.index(b"\x2c" + bytes(4) + (72).to_bytes(2, "little"))  # the first frame's descriptor
    data[at + 1 : at + 5] = place[0].to_bytes(2, "little") + place[1].to_bytes(2, "little")
    expected = tf.io.decode_gif(bytes(data))[0].numpy()
    assert np.array_equal(decode_image(bytes(data)), expected) and np.array_equal(decode(bytes(data)), expected)


def test_what_pillows_readers_raise_for_a_damaged_file_is_one_sentence():
    whole = saved(*FILES["AVIF"])
    at = whole.index(b"mdat") + 12
    with pytest.raises(
        ValueError, match="^data expected a whole image, received a damaged AVIF file of [0-9,]+ bytes.$"
    ):
        decode_image(whole[:at] + bytes(len(whole) - at))
