"""Turn images into model inputs, and model outputs into class names.

Evaluation (without a recipe's `data.resize`), prediction, exports and the analysis tools use this file. Keras is
imported only for tensors.

B batch, H W C image.
"""

import csv
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_vit.preprocessing.decode import decode_image as decode_image
from keras_vit.preprocessing.geometry import prepare_image
from keras_vit.preprocessing.kinds import is_camera_raw
from keras_vit.preprocessing.resize import resize_image

if TYPE_CHECKING:
    from keras_vit.preprocessing.image_spec import ImageSpec


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """Scale pixels 0..255 to [-1, 1], as the official ViT and BiT weights expect.

    Other weights may need another mean and standard deviation, which `model.preprocessing` states.

    Args:
        x: images of any shape, a NumPy array or a tensor.
        data_format: accepted for the signature of `keras.applications`; the scaling does not depend on it.
    """
    return as_floats(x) / 127.5 - 1.0


def as_floats(x: Any) -> Any:
    """Return an array or tensor of integers as float32, and others unchanged."""
    if isinstance(x, np.ndarray):
        return x.astype("float32") if x.dtype.kind in "ui" else x
    if "int" in str(getattr(x, "dtype", "")):
        from keras import ops

        return ops.cast(x, "float32")
    return x


def resize(images, size: tuple[int, int]):
    """Resize (..., H, W, C) by antialiased bilinear interpolation. Return float32 within 1 of Pillow's pixels."""
    from keras import ops

    how = {"interpolation": "bilinear", "antialias": True, "data_format": "channels_last"}
    return ops.image.resize(ops.cast(images, "float32"), size, **how)


def load_image(
    source: str | os.PathLike | bytes,
    input_shape: tuple[int | None, int | None, int],
    spec: "ImageSpec | None" = None,
) -> np.ndarray:
    """Decode an image, apply its EXIF orientation, and bring it to the size of a model's input.

    Args:
        source: path of the file, or its bytes.
        input_shape: (height, width, channels); a side that is None is not resized.
        spec: the model's preprocessing; None resizes both sides by bilinear interpolation.

    Returns:
        Pixels 0..255, float32 (H, W, C). `ModelInterface.inputs_of` converts them to the model's range.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the file is not an image.
    """
    if isinstance(source, bytes):
        image = decode_image(source, input_shape[2])
    else:
        if not Path(source).is_file():
            raise FileNotFoundError(f"image expected a file, found none at {str(source)!r}.")
        if is_camera_raw(str(source)):
            raise ValueError(
                f"{source} expected an image file, received a camera's raw file; convert it to JPEG first."
            )
        image = decode_image(Path(source).read_bytes(), input_shape[2], source=str(source))
    size = input_shape[0] or image.shape[0], input_shape[1] or image.shape[1]
    if spec is not None and not spec.is_plain_resize and None not in input_shape:
        return prepare_image(image, spec, size)
    return image.astype("float32") if size == image.shape[:2] else resize_image(image, size)


@functools.cache
def imagenet_classes() -> list[tuple[str, str]]:
    """Return (WordNet id, name) of the 1000 classes of ILSVRC 2012, in label order."""
    with (Path(__file__).parent / "imagenet_classes.csv").open(newline="") as file:
        return [(wordnet_id, name) for wordnet_id, name in csv.reader(file)]


def decode_predictions(
    preds: Any, top: int = 5, labels: Iterable[str] | None = None
) -> list[list[tuple[str, str, float]]]:
    """Name the best classes of a batch, as in `keras.applications`.

    Args:
        preds: scores (B, classes).
        top: number of classes to name.
        labels: names of the classes; ImageNet-1k's if None.

    Returns:
        For each image, `top` tuples (class id, name, score), best first.

    Raises:
        ValueError: `preds` is not (B, classes).
    """
    if not isinstance(preds, list | tuple | np.ndarray):
        from keras import ops

        preds = ops.convert_to_numpy(preds)
    preds = np.asarray(preds)
    names = imagenet_classes() if labels is None else [(str(i), str(name)) for i, name in enumerate(labels)]
    if preds.ndim != 2 or preds.shape[1] != len(names):
        raise ValueError(f"preds expected shape (batch, {len(names)}), received {preds.shape}.")
    best = np.argsort(-preds, axis=1, kind="stable")[:, :top]
    return [[(*names[i], float(scores[i])) for i in row] for row, scores in zip(best, preds, strict=True)]
