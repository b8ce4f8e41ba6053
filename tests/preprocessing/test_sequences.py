"""Padded patch sequences of images: the grids and pixels of transformers and timm."""

import io

import numpy as np
import parity
import pytest
from parity import quietly
from support import first_quick

import keras_vit
from keras_vit.preprocessing.sequences import fitted_grid

SIZES = ((30, 70), (64, 64), (99, 20), (500, 333), (17, 480), (3, 3))  # height, width


def images():
    """Smooth images with noise, so that resizing matters and rounding does not."""
    rng = np.random.default_rng(0)
    for height, width in SIZES:
        y, x = np.mgrid[:height, :width]
        waves = np.stack([np.sin(x / 9 + i) + np.cos(y / 7 - i) for i in range(3)], axis=-1)
        yield (127 + 50 * waves + rng.uniform(-20, 20, waves.shape)).clip(0, 255).astype("uint8")


@pytest.mark.parametrize(("patch_size", "max_patches"), first_quick([(8, 49), (16, 256)]))
def test_patches_are_those_of_transformers(patch_size, max_patches):
    parity.transformers()
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

    theirs = quietly(
        lambda: Siglip2ImageProcessorPil(patch_size=patch_size, max_num_patches=max_patches)(
            list(images()), return_tensors="np", input_data_format="channels_last"
        )
    )
    ours = keras_vit.patch_sequences(list(images()), patch_size, max_patches)
    grids = ours["coordinates"].max(axis=1) + 1
    np.testing.assert_array_equal(grids, theirs["spatial_shapes"])
    np.testing.assert_array_equal(ours["valid"], theirs["pixel_attention_mask"].astype(bool))
    assert ours["patches"].shape == theirs["pixel_values"].shape
    assert np.abs(ours["patches"] - theirs["pixel_values"]).max() <= 2 / 255 + 1e-6  # 1 of 255 in [-1, 1]


def test_grids_are_those_of_timm():
    parity.timm()
    from timm.data.naflex_transforms import get_image_size_for_seq

    rng = np.random.default_rng(0)
    for height, width, most in zip(*(rng.integers(1, high, 40) for high in (900, 900, 1000)), strict=True):
        for patch in ((16, 16), (14, 7)):
            _, size = get_image_size_for_seq((height, width), patch, most)
            grid = fitted_grid(height, width, patch, most)
            assert tuple(side * p for side, p in zip(grid, patch, strict=True)) == size
            assert 1 <= grid[0] * grid[1] <= most


def test_values_and_places(tmp_path):
    image = np.arange(4 * 6 * 3, dtype="uint8").reshape(4, 6, 3)
    batch = keras_vit.patch_sequences([image], 2, 6)
    assert batch["valid"].all() and batch["coordinates"][0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert batch["patches"][0, 4].tolist() == (image[2:, 2:4].reshape(-1) / np.float32(127.5) - 1).tolist()
    spec = keras_vit.ImageSpec(mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7), channel_order="BGR", interpolation="bicubic")
    padded = keras_vit.patch_sequences([image], (2, 3), 7, spec)
    assert padded["valid"][0].tolist() == [True] * 4 + [False] * 3 and not padded["patches"][0, 4:].any()
    expected = spec.normalize(image[:2, 3:].astype("float32")).reshape(-1)
    np.testing.assert_allclose(padded["patches"][0, 1], expected, atol=1e-6)
    from PIL import Image

    Image.fromarray(image).save(tmp_path / "image.png")
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    for source in (tmp_path / "image.png", str(tmp_path / "image.png"), buffer.getvalue()):
        read = keras_vit.patch_sequences([source], 2, 6)
        np.testing.assert_array_equal(read["patches"], batch["patches"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.zeros((4, 4, 3))],), r"images\[0\] expected uint8 \(height, width, 3\), received float64 \(4, 4, 3\)"),
        (([np.zeros((4, 4), "uint8")],), r"images\[0\] expected uint8 \(height, width, 3\), received uint8 \(4, 4\)"),
        (([],), "images expected a list of at least one image, received"),
        (("photo.jpg",), "images expected a list of at least one image, received 'photo.jpg'"),
        (([np.zeros((4, 4, 3), "uint8")], 0), "patch_size expected a positive int or .height, width., received 0"),
        (([np.zeros((4, 4, 3), "uint8")], 2, 1.5), "max_patches expected a positive int, received 1.5"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        keras_vit.patch_sequences(*arguments)
