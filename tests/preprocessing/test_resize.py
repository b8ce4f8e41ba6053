"""NumPy's resizing gives TensorFlow's pixels."""

import keras
import numpy as np
import pytest

from keras_vit.preprocessing.inputs import resize
from keras_vit.preprocessing.resize import resize_image


@pytest.mark.parametrize(
    ("sides", "size"),
    [
        *[((37, 53), (16, 16)), ((53, 37), (64, 81)), ((225, 223), (224, 224)), ((9, 9), (9, 5))],  # down, up, mixed
        *[((1, 1), (8, 8)), ((1, 501), (7, 9)), ((501, 1), (9, 7)), ((2, 3), (97, 96)), ((3001, 3), (1, 1))],
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_pixels_are_those_of_the_models_own_resizing(sides, size, channels):
    image = np.random.default_rng(0).integers(0, 256, (*sides, channels), "uint8")
    found, expected = resize_image(image, size), keras.ops.convert_to_numpy(resize(image, size))
    assert found.shape == expected.shape == (*size, channels) and found.dtype == np.float32
    assert np.abs(found - expected).max() < 0.01  # of 255; positions in float32 are rounded by 1e-5 of a pixel


def test_resizing_to_the_same_size_changes_nothing_and_grey_stays_grey():
    image = np.random.default_rng(0).integers(0, 256, (7, 5, 3), "uint8")
    assert np.array_equal(resize_image(image, (7, 5)), image)
    assert np.allclose(resize_image(np.full((31, 17, 3), 77, "uint8"), (224, 3)), 77, atol=1e-4)
