"""Pixels and names, against Pillow and Keras's own."""

import io
import json

import keras
import numpy as np
import pytest
from PIL import Image
from support import ROOT, max_difference, needs_tensorflow

import keras_vit
from keras_vit.preprocessing.inputs import decode_image, imagenet_classes, load_image, resize

SAMPLE = ROOT.parent / "shared/data/imagenet_sample"


def picture(height=37, width=53, seed=0):
    """A smooth picture with some noise, as photographs have."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 100 * np.sin(x / (5 + c) + y / (9 - c)) for c in range(3)]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 8, (height, width, 3)), 0, 255).astype("uint8")


def encoded(image, kind):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind)
    return buffer.getvalue()


def test_scaling_is_that_of_keras_applications():
    pixels = picture()
    expected = keras.applications.imagenet_utils.preprocess_input(pixels.astype("float32"), mode="tf")
    for x in (pixels, pixels.astype("float32"), keras.ops.convert_to_tensor(pixels)):
        assert max_difference(keras_vit.preprocess_input(x), expected) < 1e-6
    assert keras_vit.preprocess_input(np.array([0, 255], "uint8")).tolist() == [-1, 1]


def test_the_model_can_include_the_scaling():
    variant = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4)
    outside = keras_vit.build(variant, input_shape=(8, 8, 3), include_top=False)
    inside = keras_vit.build(variant, input_shape=(8, 8, 3), include_top=False, include_preprocessing=True)
    inside.set_weights(outside.get_weights())
    pixels = picture(8, 8)[None].astype("float32")
    assert max_difference(inside(pixels), outside(keras_vit.preprocess_input(pixels))) < 1e-5


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_decoding_is_pillows(kind, channels):
    data = encoded(picture(), kind)
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])).reshape(37, 53, channels)
    np.testing.assert_array_equal(decode_image(data, channels), expected)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_of_16_bits_is_read_by_its_high_bytes(kind, channels):
    wide = np.arange(0, 65536, 16, "uint16").reshape(64, 64)
    expected = np.repeat((wide >> 8).astype("uint8")[..., None], channels, -1)
    np.testing.assert_array_equal(decode_image(encoded(wide, kind), channels), expected)


@needs_tensorflow
def test_decoding_is_tensorflows_accurate_one():
    import tensorflow as tf

    data = encoded(picture(), "JPEG")
    np.testing.assert_array_equal(tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE").numpy(), decode_image(data))


@pytest.mark.parametrize("size", [(16, 16), (24, 80), (74, 106)])
def test_resizing_is_pillows_within_one_step(size):
    image = picture()
    expected = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR)).astype("float32")
    assert max_difference(resize(image, size), expected) <= 1.0


def test_load_image_gives_a_model_input(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(picture(), "PNG"))
    np.testing.assert_array_equal(load_image(tmp_path / "a.png", (None, None, 3)), picture().astype("float32"))
    small = load_image(tmp_path / "a.png", (16, 8, 1))
    assert small.shape == (16, 8, 1) and small.dtype == "float32" and small.min() >= 0 and small.max() <= 255
    np.testing.assert_array_equal(load_image((tmp_path / "a.png").read_bytes(), (16, 8, 1)), small)


def test_what_is_no_image_gets_one_sentence(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(
        ValueError, match=r"a\.png expected an image file \(JPEG, PNG, .*, HEIC, AVIF\), received 8 other bytes\."
    ):
        load_image(tmp_path / "a.png", (8, 8, 3))
    truncated = encoded(picture(), "JPEG")[:200]
    with pytest.raises(ValueError, match="data expected a whole image, received a damaged JPEG file of 200 bytes"):
        decode_image(truncated)
    with pytest.raises(FileNotFoundError, match="image expected a file, found none at "):
        load_image(tmp_path / "b.png", (8, 8, 3))
    with pytest.raises(ValueError, match=r"channels expected one of \(1, 3, 4\), received 2\."):
        decode_image(b"", 2)


def test_an_image_of_too_many_pixels_is_not_called_other_bytes(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 900)
    with pytest.raises(ValueError, match=r"^data expected an image of at most 1,800 pixels, received one of more\.$"):
        decode_image(encoded(picture(), "PNG"))


def test_predictions_are_named_best_first():
    scores = np.zeros((2, 1000))
    scores[0, [0, 999]] = 0.3, 0.7
    scores[1, 5] = 1
    best = keras_vit.decode_predictions(scores, top=2)
    assert best[0] == [("n15075141", "toilet_tissue", 0.7), ("n01440764", "tench", 0.3)]
    assert best[1][0] == ("n01496331", "electric_ray", 1.0)
    assert keras_vit.decode_predictions([[0.2, 0.8]], top=1, labels=["cat", "dog"]) == [[("1", "dog", 0.8)]]
    with pytest.raises(ValueError, match=r"preds expected shape \(batch, 1000\), received \(1, 3\)\."):
        keras_vit.decode_predictions([[1, 2, 3]])


def test_the_class_names_are_those_of_real_images():
    if not SAMPLE.is_dir():
        pytest.skip("the sample of real ImageNet pictures is not here")
    classes = imagenet_classes()
    assert len(classes) == len({wnid for wnid, _ in classes}) == 1000
    for row in json.loads((SAMPLE / "labels.json").read_text()).values():
        assert classes[row["index"]] == (row["wnid"], row["name"].replace(" ", "_"))
