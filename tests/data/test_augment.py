"""Augmentation against what it should do to a picture, and its random numbers."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data import augment

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
    shapes = [augment.random_crop(image, augment.seed_pair(0, i), 0.25).shape for i in range(50)]
    areas = np.array([height * width / 2400 for height, width, _ in shapes])
    ratios = np.array([width / height for height, width, _ in shapes])
    assert areas.min() > 0.2 and areas.max() <= 1 and areas.std() > 0.1
    assert ratios.min() > 0.7 and ratios.max() < 1.4
    assert augment.random_crop(image, augment.seed_pair(0, 3), 0.25).shape == shapes[3]


def test_mixup_is_its_formula():
    images = np.arange(3, dtype="float32").reshape(3, 1, 1, 1)
    targets = np.eye(3, dtype="float32")
    shares = []
    for i in range(200):
        mixed, blended = (x.numpy() for x in augment.mixup(images, targets, 0.2, augment.seed_pair(1, i)))
        share = blended[0, 0]
        shares.append(share)
        assert np.allclose(blended, share * targets + (1 - share) * np.roll(targets, 1, 0), atol=1e-6)
        assert np.allclose(mixed, share * images + (1 - share) * np.roll(images, 1, 0), atol=1e-5)
    drawn = np.random.default_rng(0).beta(0.2, 0.2, 100_000)
    assert min(shares) >= 0.5 and np.mean(shares) == pytest.approx(np.maximum(drawn, 1 - drawn).mean(), abs=0.03)


def test_uniform_numbers_are_uniform_and_independent():
    index = tf.range(20_000, dtype=tf.int64)
    draws = np.array([augment.uniform(slot, 3, epoch, index) for slot in (0, 1) for epoch in (0, 1)])
    assert draws.min() >= 0 and draws.max() < 1
    assert np.allclose(draws.mean(1), 0.5, atol=0.01) and np.allclose(draws.std(1), 12**-0.5, atol=0.01)
    assert np.max(np.abs(np.corrcoef(draws) - np.eye(4))) < 0.03
    assert len(np.unique(draws[0])) > 19_900


def test_keys_differ_by_any_number():
    keys = {int(augment.key(seed, epoch, index)) for seed in range(5) for epoch in range(5) for index in range(5)}
    assert len(keys) == 125
