"""Find the image files that command-line arguments mean, and load them in batches."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.preprocessing.inputs import load_image
from keras_vit.preprocessing.kinds import KINDS

BATCH_SIZE = 32
READER_THREADS = 4


def image_files(names: Sequence[str], lines: Iterable[bytes] = ()) -> list[str] | Iterator[str]:
    """Return the files that arguments mean, in the arguments' order.

    Args:
        names: files with any name; folders, which stand for the image files in them and their subfolders; `-`, which
            stands for `lines`.
        lines: more files and folders, one per line, read lazily; empty lines are skipped.

    Returns:
        A list; an iterator if the names contain `-`, because the number of files is not known yet.

    Raises:
        ValueError: the folders contain no image file, and no file is named.
    """
    if "-" in names:
        return _files_of_names(names, lines)
    files = list(_files_of_names(names, ()))
    if not files:
        kinds = ", ".join(KINDS)
        raise ValueError(f"images expected image files ({kinds}), found none in {', '.join(map(repr, names))}.")
    return files


def _files_of_names(names, lines) -> Iterator[str]:
    for name in names:
        if name == "-":
            for line in lines:
                if line.strip():
                    yield from _files_of_name(os.fsdecode(line.rstrip(b"\r\n")))
        else:
            yield from _files_of_name(name)


def _files_of_name(name: str) -> Iterator[str]:
    return image_files_below(name) if os.path.isdir(name) else iter((name,))


def loaded_batches(
    images: Iterable, shape: tuple[int, int, int], spec: ImageSpec | None = None
) -> Iterator[tuple[list, np.ndarray, list]]:
    """Yield batches of (paths, RGB pixels (B, H, W, C) in 0..255, error messages). One batch is read ahead at most.

    Images are resized and cropped as `spec` says, or squeezed to the shape.

    An image that cannot be read is zeros, because a batch of another size would be compiled again. The message of an
    image that can be read is None.
    """
    images = iter(images)
    with ThreadPoolExecutor(READER_THREADS, "images") as pool:
        while paths := list(itertools.islice(images, BATCH_SIZE)):
            loaded = list(pool.map(lambda path: _load(path, shape, spec), paths))
            pixels = np.stack([np.zeros(shape, "float32") if error else image for image, error in loaded])
            yield paths, pixels, [error for _, error in loaded]


def _load(path, shape, spec):
    """Return (image, None), or (None, error message)."""
    try:
        return load_image(path, shape, spec), None
    except Exception as error:  # Pillow does not document what its readers raise for a damaged file
        return None, " ".join(str(error).split()) or type(error).__name__
