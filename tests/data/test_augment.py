"""Augmentation against what it should do to a picture, and its random numbers."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data import augment, seeds

pytestmark = needs_tensorflow

PICTURE = np.random.default_rng(0).uniform(0, 255, (1, 9, 9, 1)).astype("float32")


def changed(down=0.0, across=0.0, turn=0.0, size=0.0, **limits):
    """The picture with every draw given in [-1, 1]."""
    draws = (np.array([[down], [across], [turn], [size]], "float32") + 1) / 2
    limits = {"shift": 0.0, "rotate": 0.0, "zoom": 0.0, **limits}
    return augment.shift_rotate_zoom(PICTURE, draws, **limits).numpy()


def test_no_change():
    assert np.allclose(changed(), PICTURE, atol=1e-3)


def test_shift_moves_by_whole_pixels():
    expected = np.zeros_like(PICTURE)
    expected[:, 2:, :-1] = PICTURE[:, :-2, 1:]
    assert np.allclose(changed(down=1.0, across=-0.5, shift=2 / 9), expected, atol=1e-2)


def test_a_quarter_turn():
    found = changed(turn=1.0, rotate=90)
    turned = [np.rot90(PICTURE, k, axes=(1, 2)) for k in (1, -1)]
    assert min(np.max(np.abs(found - t)) for t in turned) < 0.1


def test_zoom_enlarges_about_the_middle():
    found = changed(size=1.0, zoom=0.999999)  # twice as large
    assert np.allclose(found[:, 4, 4], PICTURE[:, 4, 4], atol=1e-2)
    assert np.allclose(found[:, ::2, ::2], PICTURE[:, 2:7, 2:7], atol=1e-2)


def test_flip_mirrors_half():
    images = np.repeat(PICTURE, 2, 0)
    found = augment.flip(images, tf.constant([0.4, 0.6])).numpy()
    assert np.array_equal(found[0], PICTURE[0, :, ::-1]) and np.array_equal(found[1], PICTURE[0])


def test_random_crop_keeps_to_its_area():
    image = np.zeros((40, 60, 3), "uint8")
    shapes = [augment.random_crop(image, seeds.seed_pair(0, i), 0.25).shape for i in range(50)]
    areas = np.array([height * width / 2400 for height, width, _ in shapes])
    ratios = np.array([width / height for height, width, _ in shapes])
    assert areas.min() > 0.2 and areas.max() <= 1 and areas.std() > 0.1
    assert ratios.min() > 0.7 and ratios.max() < 1.4
    assert augment.random_crop(image, seeds.seed_pair(0, 3), 0.25).shape == shapes[3]


@pytest.mark.parametrize("border", [0, 2])
def test_a_window_of_the_padded_image_is_anywhere(border):
    image = np.arange(1, 31, dtype="float32").reshape(5, 6, 1)
    wide = np.pad(image, [[border, border], [border, border], [0, 0]])
    windows = {wide[y : y + 5, x : x + 6].tobytes() for y in range(2 * border + 1) for x in range(2 * border + 1)}
    draws = np.random.default_rng(0).uniform(0, 1, (300, 2)).astype("float32")
    found = [augment.padded_window(tf.constant(image), tf.constant(d), border).numpy().tobytes() for d in draws]
    assert set(found) == windows


def test_a_window_keeps_to_the_image():
    image = tf.constant(np.arange(30, dtype="float32").reshape(5, 6, 1))
    corner = augment.random_window(image, tf.constant([0.999, 0.999]), (3, 2)).numpy()
    assert np.array_equal(corner, image.numpy()[2:, 4:])


def test_erasing_fills_a_rectangle_with_noise():
    image = tf.fill((40, 60, 3), 300.0)
    change = tf.function(lambda i: augment.erase(image, 0.5, seeds.seed_pair(0, i)))
    found = [change(tf.constant(i, tf.int64)).numpy() for i in range(300)]
    erased = [x for x in found if x.min() < 300]
    assert 120 < len(erased) < 180
    shares, ratios = [], []
    for x in erased:
        rows, columns = np.nonzero(x[..., 0] < 300)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert height * width == len(rows) and np.all((x < 256) | (x == 300))
        shares.append(len(rows) / 2400)
        ratios.append(height / width)
    assert min(shares) > 0.015 and max(shares) < 0.36 and 0.1 < np.mean(shares) < 0.22
    assert min(ratios) < 0.5 and max(ratios) > 1.4 and min(ratios) > 0.25 and max(ratios) < 4
    noise = np.concatenate([x[x < 300] for x in erased])
    assert abs(noise.mean() - 127.5) < 2 and abs(noise.std() - 73.9) < 2
    assert np.array_equal(found[1], change(tf.constant(1, tf.int64)).numpy())


def test_uniform_numbers_are_uniform_and_independent():
    index = tf.range(20_000, dtype=tf.int64)
    draws = np.array([seeds.uniform(slot, 3, epoch, index) for slot in (0, 1) for epoch in (0, 1)])
    assert draws.min() >= 0 and draws.max() < 1
    assert np.allclose(draws.mean(1), 0.5, atol=0.01) and np.allclose(draws.std(1), 12**-0.5, atol=0.01)
    assert np.max(np.abs(np.corrcoef(draws) - np.eye(4))) < 0.03
    assert len(np.unique(draws[0])) > 19_900


def test_keys_differ_by_any_number():
    keys = {int(seeds.key(seed, epoch, index)) for seed in range(5) for epoch in range(5) for index in range(5)}
    assert len(keys) == 125


def test_what_is_known_before_the_graph_is_mixed_alike():
    """The values are those of the first runs: one that goes on from its checkpoint sees the same pictures."""
    for numbers, expected in (
        ((3,), 13604808898340030615),
        ((0, 1, 2), 12421565313168862949),
        ((-1, 2**40, 5), 6480278129750117671),
    ):
        found = [seeds.key(*numbers), seeds.key(*(tf.constant(n, tf.int64) for n in numbers))]
        found.append(seeds.key(tf.constant(numbers[0], tf.int64), *numbers[1:]))
        assert [int(x) for x in found] == [expected] * 3
    draws = seeds.uniform(tf.range(3)[:, None], 4, tf.range(5))
    assert np.array_equal(draws, [seeds.uniform(slot, 4, tf.range(5)) for slot in range(3)])
