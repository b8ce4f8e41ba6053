"""RandAugment's operations against Pillow's, and its draws."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps
from support import needs_tensorflow

from keras_vit.data import randaugment
from keras_vit.data.seeds import seed_pair

pytestmark = needs_tensorflow

# Smooth, so that histograms have gaps, with noise; not square, so that no axis is taken for the other.
SHADES = np.linspace(20, 200, 48)[:, None, None] * np.array([1.0, 0.8, 0.6]) + np.linspace(0, 50, 40)[None, :, None]
PICTURE = (SHADES + np.random.default_rng(0).uniform(-20, 20, SHADES.shape)).clip(0, 255).astype("uint8")
MAGNITUDES = (0, 7, 10, 15, 20, 30)


def applied(name, magnitude, picture=PICTURE, sign=0.9):
    return randaugment.apply(name, tf.constant(picture), magnitude, tf.constant([0.0, sign, 0.5, 0.5])).numpy()


def pillows(name, magnitude):
    picture, level = Image.fromarray(PICTURE), magnitude / 10
    if name in ("Color", "Contrast", "Brightness", "Sharpness"):
        return getattr(ImageEnhance, name)(picture).enhance(1.8 * level + 0.1)
    return {
        "AutoContrast": lambda: ImageOps.autocontrast(picture),
        "Equalize": lambda: ImageOps.equalize(picture),
        "Invert": lambda: ImageOps.invert(picture),
        "Posterize": lambda: ImageOps.posterize(picture, min(max(int(4 * level), 1), 8)),
        "Solarize": lambda: ImageOps.solarize(picture, int(256 * level)),
        "SolarizeAdd": lambda: picture.point(
            [min(i + int(110 * level), 255) if i < 128 else i for i in range(256)] * 3
        ),
    }[name]()


@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize("name", randaugment.NAMES[:10])
def test_colours_equal_pillows(name, magnitude):
    found, expected = applied(name, magnitude), np.array(pillows(name, magnitude))
    assert found.dtype == np.uint8 and np.max(np.abs(found.astype(int) - expected)) <= 1
    assert np.mean(found != expected) < 0.01


# What big_vision's levels are at magnitude 7 on 224 x 224 pixels, as Pillow's own functions take them.
@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("ShearX", (1, -0.21, 0, 0, 1, 0)),
        ("ShearY", (1, 0, 0, -0.21, 1, 0)),
        ("TranslateX", (1, 0, -70, 0, 1, 0)),
        ("TranslateY", (1, 0, 0, 0, 1, -70)),
        ("Rotate", None),
    ],
)
@pytest.mark.parametrize("sign", [0.9, 0.1])
def test_moves_equal_pillows(name, matrix, sign):
    large = np.random.default_rng(0).integers(0, 256, (224, 224, 3), "uint8")
    found, picture = applied(name, 7, large, sign), Image.fromarray(large)
    forward = 1 if sign > 0.5 else -1
    if matrix is None:
        expected = picture.rotate(forward * 21, Image.NEAREST, fillcolor=(128,) * 3)
    else:
        a, b, c, d, e, f = (x if i in (0, 4) else -forward * x for i, x in enumerate(matrix))
        # Pillow's coordinates are those of a pixel's middle, half a pixel further.
        matrix = (a, b, c + 0.5 - 0.5 * a - 0.5 * b, d, e, f + 0.5 - 0.5 * d - 0.5 * e)
        expected = picture.transform(picture.size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=(128,) * 3)
    differing = np.mean(np.any(found != np.array(expected), axis=-1)), np.mean(found != large)
    assert differing[0] < 0.01 < differing[1]


def test_moves_scale_with_the_image():
    small = np.random.default_rng(0).integers(0, 256, (32, 32, 1), "uint8")
    moved = applied("TranslateX", 7, small)
    shift = [
        s
        for s in range(1, 32)
        if np.array_equal(moved[:, :-s], small[:, s:]) or np.array_equal(moved[:, s:], small[:, :-s])
    ]
    assert shift == [10]  # 70 of 224 pixels
    assert np.sum(moved == 128) >= 32 * 10


def test_cut_out_is_a_grey_square():
    found = applied("Cutout", 10, np.zeros((224, 224, 3), "uint8"))
    rows, columns = np.nonzero(found[..., 0])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (72, 151, 72, 151)  # 40 either way of 112
    assert np.all(found[72:152, 72:152] == 128) and np.sum(found > 0) == 80 * 80 * 3
    corner = randaugment.cut_out(tf.zeros((20, 30, 1), tf.uint8), 0.1, tf.constant([0.0, 0.999])).numpy()
    assert np.argwhere(corner[..., 0]).tolist() == [[i, j] for i in range(2) for j in range(26, 30)]


@pytest.mark.parametrize("channels", [1, 3])
def test_every_operation_is_drawn_alike(channels):
    picture = tf.constant(PICTURE[:16, :20, :channels])
    kinds = [randaugment.apply(n, picture, 9, tf.constant([0.0, 0.9, 0.5, 0.5])).numpy() for n in randaugment.NAMES]
    one = tf.function(lambda draws: randaugment.one_of(picture, 9, draws))
    for i, name in enumerate(randaugment.NAMES):
        found = one(tf.constant([(i + 0.5) / 16, 0.9, 0.5, 0.5])).numpy()
        assert np.array_equal(found, kinds[i]), name
    assert len(randaugment.NAMES) == 16


def test_a_seed_decides():
    change = tf.function(lambda i: randaugment.rand_augment(tf.constant(PICTURE), 2, 15, seed_pair(0, i)))
    found = [change(tf.constant(i, tf.int64)).numpy() for i in range(12)]
    assert np.array_equal(found[3], change(tf.constant(3, tf.int64)).numpy())
    assert len({x.tobytes() for x in found}) > 9
    assert {x.shape for x in found} == {PICTURE.shape}
