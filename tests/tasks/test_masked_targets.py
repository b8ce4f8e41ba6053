"""Masked patch prediction: what is hidden, and what is asked."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.corrupt import corruption
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train.recipe import Data, Masked, Model, Recipe, Variant

pytestmark = needs_tensorflow
RNG = np.random.default_rng(0)


def plans(count=400, cells=64, share=32, mask=0.8, swap=0.1, seed=0, first=0):
    index = tf.range(first, first + count, dtype=tf.int64)
    plan = corruption(index, cells, share, mask, swap, seed).numpy()
    return plan[:, :cells], plan[:, cells:]


def test_corruption_has_the_papers_rates():
    sources, places = plans()
    own = np.arange(1, 65)[None]
    assert all(len(set(row)) == 32 and list(row) == sorted(row) for row in places)
    corrupted = np.zeros_like(sources, bool)
    np.put_along_axis(corrupted, places, True, axis=1)
    assert (sources == own)[~corrupted].all() and sources.min() == 0 and sources.max() == 64
    drawn, mine = sources[corrupted], np.broadcast_to(own, sources.shape)[corrupted]
    count = len(drawn)
    for found, expected in ((drawn == 0, 0.8), (drawn == mine, 0.1), ((drawn != 0) & (drawn != mine), 0.1)):
        assert abs(found.mean() - expected) < 4 * (expected * (1 - expected) / count) ** 0.5
    # Every patch is hidden as often as any other, and the swapped ones come from anywhere.
    assert np.abs(corrupted.mean(axis=0) - 0.5).max() < 4 * 0.5 / 400**0.5
    swapped = (drawn != 0) & (drawn != mine)
    offsets = np.bincount((drawn - mine)[swapped] % 64, minlength=64)
    assert offsets[0] == 0 and offsets[1:].min() > 0 and offsets[1:].max() < 3 * offsets[1:].mean()


def test_corruption_hangs_on_the_example_and_the_seed_alone():
    sources, places = plans(20)
    again = plans(5, first=7)
    assert (again[0] == sources[7:12]).all() and (again[1] == places[7:12]).all()
    assert (plans(20, seed=1)[0] != sources).mean() > 0.3


def test_shares_of_none_and_all():
    sources, _ = plans(4, mask=0.0, swap=0.0)
    assert (sources == np.arange(1, 65)).all()
    sources, places = plans(4, share=64, mask=0.0, swap=1.0)
    assert (sources != np.arange(1, 65)).all() and sources.min() > 0 and (places == np.arange(64)).all()


def task(target="mean_colour", channels=3, patch=4, **model):
    row = Variant("tiny", width=16, depth=2, mlp_dim=32, num_heads=2, patch_size=patch, image_size=16)
    settings = Model(row, channels=channels, **model)
    return MaskedPatches(Recipe("tiny", settings, Data("digits"), masked=Masked(target), steps=1), settings.input_shape)


IMAGES = RNG.uniform(0, 1, (2, 16, 16, 3)).astype("float32")


def level(value):
    return min(int(np.floor(value * 8)), 7)


def by_hand(images, patch, parts):
    """Patch by patch, part by part: (B, N, parts * parts) classes."""
    found = []
    for image in images:
        for y in range(0, 16, patch):
            for x in range(0, 16, patch):
                size = patch // parts
                for i in range(parts):
                    for j in range(parts):
                        square = image[y + i * size : y + (i + 1) * size, x + j * size : x + (j + 1) * size]
                        red, green, blue = (level(v) for v in square.mean(axis=(0, 1)))
                        found.append(64 * red + 8 * green + blue)
    return np.array(found).reshape(len(images), -1, parts * parts)


@pytest.mark.parametrize(("target", "patch", "parts"), [("mean_colour", 4, 1), ("colours", 8, 4), ("colours", 4, 4)])
@pytest.mark.parametrize("pixels", [False, True])
def test_colours_are_three_bits_a_channel(target, patch, parts, pixels):
    own = task(target, patch=patch, include_preprocessing=pixels)
    found = own.patch_targets(tf.constant(255 * IMAGES if pixels else 2 * IMAGES - 1))
    assert (found.numpy() == by_hand(IMAGES, patch, parts)).mean() > 0.998  # at a level's edge rounding decides
    black_and_white = tf.constant(np.stack([np.zeros((16, 16, 3)), np.ones((16, 16, 3))]).astype("float32"))
    ends = own.patch_targets(255 * black_and_white if pixels else 2 * black_and_white - 1).numpy()
    assert (ends[0] == 0).all() and (ends[1] == 511).all()


def test_pixels_are_the_patchs_own_and_the_loss_their_mean_square():
    own = task("pixels")
    images = tf.constant(2 * IMAGES - 1)
    found = own.patch_targets(images).numpy()
    assert found.shape == (2, 16, 48)
    assert np.allclose(found[1, 6].reshape(4, 4, 3), images[1, 4:8, 8:12], atol=1e-6)
    targets = own.corrupt(0, tf.range(2, dtype=tf.int64))
    outputs = RNG.normal(size=(2, 8, 48)).astype("float32")
    chosen = np.take_along_axis(found, targets.numpy()[:, 16:, None], axis=1)
    assert np.allclose(own.losses(outputs, images, targets), ((outputs - chosen) ** 2).mean(axis=(1, 2)), rtol=1e-5)


@pytest.mark.parametrize(("target", "parts"), [("mean_colour", 1), ("colours", 4)])
def test_the_loss_is_the_mean_cross_entropy_of_the_corrupted_patches(target, parts):
    own, images = task(target), tf.constant(2 * IMAGES - 1)
    targets = own.corrupt(0, tf.range(2, dtype=tf.int64))
    logits = RNG.normal(size=(2, 8, parts * parts * 512)).astype("float32")
    found = own.losses(logits, images, targets).numpy()
    classes = own.patch_targets(images).numpy()
    for b in range(2):
        each = []
        for k, place in enumerate(targets.numpy()[b, 16:]):
            for part, answer in enumerate(classes[b, place]):
                row = logits[b, k].reshape(parts * parts, 512)[part].astype("float64")
                each.append(np.log(np.exp(row).sum()) - row[answer])
        assert found[b] == pytest.approx(np.mean(each), rel=1e-5)
