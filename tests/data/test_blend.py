"""Mixup and cutmix against their formulas."""

import numpy as np
import pytest
from support import needs_tensorflow

from keras_vit.data import blend
from keras_vit.data.seeds import seed_pair

pytestmark = needs_tensorflow

IMAGES = np.arange(1, 4, dtype="float32").reshape(3, 1, 1, 1) * np.ones((1, 12, 10, 1), "float32")
TARGETS = np.eye(3, dtype="float32")
OTHERS = np.roll(IMAGES, 1, 0), np.roll(TARGETS, 1, 0)


def blended(function, i, p):
    return [x.numpy() for x in function(IMAGES, TARGETS, OTHERS, p, seed_pair(1, i))]


def test_mixup_is_its_formula():
    shares = []
    for i in range(200):
        mixed, targets = blended(blend.mixup, i, 0.2)
        share = targets[0, 0]
        shares.append(share)
        assert np.allclose(targets, share * TARGETS + (1 - share) * OTHERS[1], atol=1e-6)
        assert np.allclose(mixed, share * IMAGES + (1 - share) * OTHERS[0], atol=1e-5)
    drawn = np.random.default_rng(0).beta(0.2, 0.2, 100_000)
    assert min(shares) >= 0.5 and np.mean(shares) == pytest.approx(np.maximum(drawn, 1 - drawn).mean(), abs=0.03)


def test_cutmix_shares_labels_as_pixels():
    kept, areas = [], []
    for i in range(200):
        mixed, targets = blended(blend.cutmix, i, 1.0)
        pasted = mixed == OTHERS[0]
        assert np.array_equal(mixed, np.where(pasted, OTHERS[0], IMAGES))
        rows, columns = np.nonzero(pasted[0, :, :, 0])
        areas.append(len(rows) / 120)
        if len(rows):
            box = (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1)
            assert box == len(rows)  # a full rectangle, the same in all
        assert np.array_equal(pasted, np.broadcast_to(pasted[:1], pasted.shape))
        assert np.allclose(targets, (1 - areas[-1]) * TARGETS + areas[-1] * OTHERS[1], atol=1e-6)
        kept.append(targets[0, 0])
    # The published code, drawn many times: uniform share, its square root of each side, cut off at the border.
    rng = np.random.default_rng(0)
    share, y, x = rng.beta(1, 1, 50_000), rng.integers(0, 12, 50_000), rng.integers(0, 10, 50_000)
    half = [(side * np.sqrt(1 - share)).astype(int) // 2 for side in (12, 10)]
    sides = [np.clip(c + h, 0, s) - np.clip(c - h, 0, s) for c, h, s in zip((y, x), half, (12, 10), strict=True)]
    expected = sides[0] * sides[1] / 120
    assert np.mean(areas) == pytest.approx(expected.mean(), abs=0.04) and max(areas) > 0.5


def test_both_are_taken_at_even_odds():
    kinds = []
    for i in range(200):
        mixed, _ = (x.numpy() for x in blend.blend(IMAGES, TARGETS, OTHERS, 0.5, 0.5, seed_pair(7, i)))
        kinds.append(bool(np.all((mixed == IMAGES) | (mixed == OTHERS[0]))))
    assert 70 < sum(kinds) < 140  # of mixup a few have a share that rounds to one
    same = [blend.blend(IMAGES, TARGETS, OTHERS, 0.5, 0.5, seed_pair(7, 3))[0].numpy() for _ in range(2)]
    assert np.array_equal(*same)


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.3, 0.0), (0.0, 0.3)])
def test_one_alone(mixup, cutmix):
    found = blend.blend(IMAGES, TARGETS, OTHERS, mixup, cutmix, seed_pair(7, 3))
    alone = (blend.mixup if mixup else blend.cutmix)(IMAGES, TARGETS, OTHERS, 0.3, seed_pair(7, 3))
    assert all(np.array_equal(a, b) for a, b in zip(found, alone, strict=True))
