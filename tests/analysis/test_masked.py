"""The picture of masked patch prediction."""

import numpy as np
import pytest
from support import randomise

import keras_vit
from keras_vit import analysis
from keras_vit.models.masked import build_masked

ROW = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
UNITS = {"mean_colour": 512, "colours": 16 * 512, "pixels": 48}
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")


def model_of(target, **options):
    return randomise(build_masked(ROW, UNITS[target], target, input_shape=(8, 8, 3), **options))


def changed(a, b):
    """Return which patches of two pictures differ: (B, 2, 2)."""
    return (a != b).reshape(len(a), 2, 4, 2, 4, 3).any(axis=(2, 4, 5))


@pytest.mark.parametrize("target", UNITS)
def test_only_corrupted_patches_are_replaced(target):
    originals, seen, said, right = analysis.predict_masked_patches(
        model_of(target), IMAGES, share=0.5, mask=1.0, swap=0.0
    )
    assert np.allclose(originals, (IMAGES + 1) / 2, atol=1e-6)
    hidden = changed(originals, seen)
    assert (hidden.sum(axis=(1, 2)) == 2).all() and (changed(originals, said) <= hidden).all()
    assert (changed(originals, right) <= hidden).all()
    assert np.allclose(np.unique(seen[seen != originals]), 0.75)


def test_the_target_is_the_mean_colour_of_a_patch_in_three_bits():
    originals, seen, _, right = analysis.predict_masked_patches(model_of("mean_colour"), IMAGES, mask=1.0, swap=0.0)
    means = originals.reshape(3, 2, 4, 2, 4, 3).mean(axis=(2, 4))
    drawn = right.reshape(3, 2, 4, 2, 4, 3)[:, :, 0, :, 0]
    hidden = changed(originals, seen)
    assert np.abs(drawn - means)[hidden].max() <= 1 / 16 + 1e-6
    assert np.allclose((drawn[hidden] * 8 - 0.5) % 1, 0, atol=1e-5)


@pytest.mark.parametrize("target", ["mean_colour", "pixels"])
def test_pixels_outside_the_grid_are_dropped(target):
    model = randomise(build_masked(ROW, UNITS[target], target, input_shape=(11, 9, 3)))
    images = np.random.default_rng(0).uniform(-1, 1, (2, 11, 9, 3)).astype("float32")
    originals = analysis.predict_masked_patches(model, images)[0]
    assert np.allclose(originals, (images[:, :8, :8] + 1) / 2, atol=1e-6)


def test_the_predicted_colour_is_drawn():
    model = model_of("mean_colour", pooling="gap")
    kernel, bias = model.get_layer("patch_prediction").dense.weights
    kernel.assign(np.zeros(kernel.shape))
    bias.assign(np.eye(512)[7 * 64 + 0 * 8 + 3])  # much red, no green, some blue
    originals, seen, said, _ = analysis.predict_masked_patches(model, IMAGES, mask=1.0, swap=0.0)
    drawn = said[changed(originals, seen).repeat(4, axis=1).repeat(4, axis=2)]
    assert np.allclose(drawn, [7.5 / 8, 0.5 / 8, 3.5 / 8])


def test_swapped_patches_come_from_the_same_image():
    originals, seen, *_ = analysis.predict_masked_patches(model_of("pixels"), IMAGES, share=1.0, mask=0.0, swap=1.0)
    cut = lambda x: x.reshape(3, 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(3, 4, -1)  # noqa: E731
    for before, after in zip(cut(originals), cut(seen), strict=True):
        found = [[np.array_equal(patch, other) for other in before] for patch in after]
        assert np.array(found).sum(axis=1).tolist() == [1] * 4 and not np.diagonal(found).any()


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
    figure = analysis.plot_masked(model_of("mean_colour", include_preprocessing=True), 127 * (IMAGES + 1),
                                  tmp_path / "masked.png")  # fmt: skip
    assert (tmp_path / "masked.png").stat().st_size > 1000
    assert [axes.get_title(loc="center") for axes in figure.axes[:4]] == list(analysis.masked.TITLES)


def test_a_classifier_raises_an_error():
    with pytest.raises(ValueError, match="expected a run's masked.keras, received 'tiny', which predicts no patches"):
        analysis.predict_masked_patches(keras_vit.build(ROW, classes=2), IMAGES)
