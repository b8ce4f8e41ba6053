"""Convert between images, batches and arrays.

B batch, H W C image.
"""

import keras
import numpy as np
from keras import ops

from keras_vit.models.model_interface import model_interface


def as_model_input(model: keras.Model, images) -> np.ndarray:
    """Return `images` as an array.

    Raises:
        ValueError: the images do not have the model's input shape, or are pixels 0..255 and the model takes [-1, 1].
    """
    interface, images = model_interface(model), np.asarray(images)
    expected = tuple(model.inputs[0].shape)
    sides = zip(expected[1:], images.shape[1:], strict=False)
    if images.ndim != len(expected) or not len(images) or any(side not in (None, given) for side, given in sides):
        shape = ", ".join("any" if side is None else str(side) for side in expected[1:])
        raise ValueError(f"images expected shape (batch, {shape}), received {images.shape}.")
    low, high = float(images.min()), float(images.max())
    lowest, highest = interface.input_range
    if not interface.takes_pixels and (images.dtype.kind in "ui" or (low >= 0 and high > 2 * highest)):
        plain = interface.preprocessing.is_plain_scaling
        function = "preprocess_input" if plain else "model.preprocessing.normalize"
        raise ValueError(
            f"images expected values in [{lowest:.3g}, {highest:.3g}], as `{function}` returns, received "
            f"{images.dtype} in {low:g}..{high:g}."
        )
    return images


def to_float32(tensor) -> np.ndarray:
    """Convert a tensor to a float32 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def split_batches(images: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Split images into batches. The last batch can be smaller."""
    return [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
