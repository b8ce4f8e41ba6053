"""Find images that show the same picture: copies, other sizes of it, and files that were saved again.

Two images look alike if the correlation of their grey thumbnails is high. Resizing, compression, and a change of
brightness or contrast keep the correlation high. A crop or a mirror image does not.

N and M images, H W C image.
"""

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageOps

SIDE = 16  # pixels of a thumbnail
ALIKE = 0.99  # correlation of thumbnails
CHUNK = 1024  # images compared at a time


def thumbnail(pixels) -> np.ndarray:
    """Return the grey thumbnail of an image as a vector (256,) of mean 0 and length 1; zeros for an even image.

    Args:
        pixels: (H, W, C) in 0..255, C 1 or 3.
    """
    pixels = np.clip(np.round(np.asarray(pixels)), 0, 255).astype("uint8")
    return _vector(Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def thumbnail_of_file(data: bytes) -> np.ndarray:
    """Return the thumbnail of an encoded image, with its EXIF orientation applied; zeros if Pillow does not read it."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("L", (4 * SIDE, 4 * SIDE))  # JPEG is decoded at a fraction of its size
            return _vector(ImageOps.exif_transpose(image))
    except Exception:  # Pillow raises many types
        return np.zeros(SIDE * SIDE, "float32")


def _vector(image: Image.Image) -> np.ndarray:
    values = np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR), "float32").ravel()
    values -= values.mean()
    length = np.linalg.norm(values)
    return values / length if length > SIDE else np.zeros_like(values)  # a deviation below 1 is noise


def near_duplicates(first, second, alike: float = ALIKE) -> list[tuple[int, int, float]]:
    """Return the images of one split that look like an image of another split, with the most similar image.

    Args:
        first: (N, 256) vectors from `thumbnail`.
        second: (M, 256) vectors of the other split.
        alike: lowest correlation of two images that look alike.

    Returns:
        Tuples (index in the first split, index in the second split, correlation), most similar first.
    """
    best = {}
    for i, j, value in _pairs(first, second, alike):
        if value > best.get(i, (0, 0.0))[1]:
            best[i] = (j, value)
    return sorted(((i, *pair) for i, pair in best.items()), key=lambda row: -row[2])


def groups(vectors) -> list[int]:
    """Return a number for each of N images; images that look alike have the same number, the index of the first.

    Args:
        vectors: (N, 256) vectors from `thumbnail`.
    """
    first = list(range(len(vectors)))

    def root(i):
        while first[i] != i:
            first[i] = first[first[i]]
            i = first[i]
        return i

    for i, j, _ in _pairs(vectors, vectors, ALIKE):
        a, b = root(i), root(j)
        first[max(a, b)] = min(a, b)
    return [root(i) for i in range(len(vectors))]


def _pairs(first, second, alike) -> Iterator[tuple[int, int, float]]:
    """Yield (i, j, correlation) of all images that look alike."""
    first, second = np.asarray(first, "float32"), np.asarray(second, "float32")
    for start in range(0, len(first), CHUNK):
        for other in range(0, len(second), CHUNK):
            similarity = first[start : start + CHUNK] @ second[other : other + CHUNK].T
            for i, j in zip(*np.nonzero(similarity >= alike), strict=True):
                yield start + int(i), other + int(j), float(similarity[i, j])
