"""Image -> model input, and the model's output -> names. Training's evaluation (but for a recipe's `data.resize`),
prediction, the exported graph and the analysis tools all go through here.

B batch, H W C image.
"""

import csv
import functools
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from keras import ops

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")  # of the files in a folder


def preprocess_input(x, data_format: str | None = None):
    """Scale pixels 0..255 to [-1, 1], as the official ViT and BiT weights expect.

    Other weights may expect another mean and standard deviation: `model.preprocessing` says which.

    Args:
        x: images of any shape, a NumPy array or a tensor.
        data_format: accepted for the signature of `keras.applications`; the scaling does not depend on it.
    """
    if isinstance(x, np.ndarray):
        x = x.astype("float32") if x.dtype.kind in "ui" else x
    elif "int" in str(getattr(x, "dtype", "")):
        x = ops.cast(x, "float32")
    return x / 127.5 - 1.0


def decode_image(data: bytes, channels: int = 3, source: str = "data") -> np.ndarray:
    """Decode a JPEG, PNG or any image Pillow reads to uint8 (H, W, channels).

    Args:
        data: the encoded file.
        channels: 1 for grey, 3 for RGB, 4 for RGBA.
        source: what to call the image in an error.

    Raises:
        ValueError: `data` is not an image, or one of more pixels than Pillow takes for an attack.
    """
    from PIL import Image

    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if channels not in modes:
        raise ValueError(f"channels expected one of {tuple(modes)}, received {channels!r}.")
    try:
        with Image.open(io.BytesIO(data)) as image:
            # Grey of 16 bits (in older Pillow a PNG's mode is I), which `convert` clips: the high bytes, as TensorFlow.
            if image.mode.startswith("I;16") or (image.format, image.mode) == ("PNG", "I"):
                image = Image.fromarray((np.asarray(image) >> 8).astype("uint8"))
            pixels = np.asarray(image.convert(modes[channels]))
    except Image.DecompressionBombError:
        most = 2 * Image.MAX_IMAGE_PIXELS
        raise ValueError(f"{source} expected an image of at most {most:,} pixels, received one of more.") from None
    except (OSError, SyntaxError, ValueError):
        raise ValueError(
            f"{source} expected an image file (JPEG, PNG, ...), received {len(data)} other bytes."
        ) from None
    return pixels.reshape(*pixels.shape[:2], channels)


def resize(images, size: tuple[int, int]):
    """Resize (H, W, C) or (B, H, W, C) to `size`, bilinear with antialiasing: within 1/255 of Pillow. float32."""
    how = {"interpolation": "bilinear", "antialias": True, "data_format": "channels_last"}
    return ops.image.resize(ops.cast(images, "float32"), size, **how)


def load_image(source: str | os.PathLike | bytes, input_shape: tuple[int | None, int | None, int]) -> np.ndarray:
    """Read one image as a model takes it: decoded, resized to the whole input, pixels 0..255.

    Args:
        source: path of the file, or its bytes.
        input_shape: (height, width, channels); None leaves that side as it is.

    Returns:
        float32 (H, W, C), to be passed to `preprocess_input` unless the model includes the preprocessing.

    Raises:
        FileNotFoundError: nothing lies at the path.
        ValueError: the file is not an image.
    """
    if isinstance(source, bytes):
        image = decode_image(source, input_shape[2])
    else:
        if not Path(source).is_file():
            raise FileNotFoundError(f"image expected a file, found none at {str(source)!r}.")
        image = decode_image(Path(source).read_bytes(), input_shape[2], source=str(source))
    size = tuple(wanted or side for wanted, side in zip(input_shape[:2], image.shape[:2], strict=True))
    return image.astype("float32") if size == image.shape[:2] else ops.convert_to_numpy(resize(image, size))


def image_files_below(
    folder: str, walk: Callable | None = None, suffixes: tuple[str, ...] = IMAGE_SUFFIXES
) -> Iterator[str]:
    """Paths of the image files in a folder and below, in each folder its own files first, sorted.

    Whatever has a name with a dot in front is left out. Links to folders are followed, but for those that lead back to
    a folder that they lie in.

    Args:
        folder: to look in; its own name may be any.
        walk: in place of `os.walk`, for places that are not local.
        suffixes: of the files, in small letters.

    Raises:
        ValueError: one of the folders may not be read.
    """
    for here, folders, files in walk(folder) if walk else os.walk(folder, onerror=_refuse, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != "." and not _leads_back(here, name, folder))
        for name in sorted(files):
            if name[0] != "." and name.lower().endswith(suffixes):
                yield f"{here.rstrip('/')}/{name}" if walk else os.path.join(here, name)


def _refuse(error: OSError) -> None:
    raise ValueError(f"images expected folders that can be read, received {error.filename!r}: {error.strerror}.")


def _leads_back(here: str, name: str, folder: str) -> bool:
    path = os.path.join(here, name)
    if not os.path.islink(path):
        return False
    target = os.path.join(os.path.realpath(path), "")
    while len(path) > len(folder):
        path = os.path.dirname(path)
        if os.path.join(os.path.realpath(path), "").startswith(target):
            return True
    return False


@functools.cache
def imagenet_classes() -> list[tuple[str, str]]:
    """(WordNet id, name) of the 1000 classes of ILSVRC 2012 in label order."""
    with (Path(__file__).parent / "imagenet_classes.csv").open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


def decode_predictions(preds, top: int = 5, labels=None) -> list[list[tuple[str, str, float]]]:
    """Name the best classes of a batch, as in `keras.applications`.

    Args:
        preds: (B, classes) scores.
        top: how many to name.
        labels: names of the classes; those of ImageNet-1k where None.

    Returns:
        For each image `top` tuples (class id, name, score), best first.

    Raises:
        ValueError: `preds` is not (B, classes).
    """
    preds = np.asarray(preds if isinstance(preds, list | tuple) else ops.convert_to_numpy(preds))
    names = imagenet_classes() if labels is None else [(str(i), str(name)) for i, name in enumerate(labels)]
    if preds.ndim != 2 or preds.shape[1] != len(names):
        raise ValueError(f"preds expected shape (batch, {len(names)}), received {preds.shape}.")
    best = np.argsort(-preds, axis=1, kind="stable")[:, :top]
    return [[(*names[i], float(scores[i])) for i in row] for row, scores in zip(best, preds, strict=True)]
