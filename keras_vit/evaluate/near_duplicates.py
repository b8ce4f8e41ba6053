"""Find near-duplicates of images by their grey thumbnails.

N and M images, H W C image.
"""

import numpy as np

SIDE = 16  # pixels of a thumbnail
ALIKE = 0.99  # correlation of thumbnails
CHUNK = 1024  # images compared at a time


def thumbnail(pixels) -> np.ndarray:
    """Return the grey thumbnail of an image as a vector (256,) of mean 0 and length 1; zeros for an even image.

    Args:
        pixels: (H, W, C) in 0..255, C 1 or 3.
    """
    from PIL import Image

    pixels = np.clip(np.round(np.asarray(pixels)), 0, 255).astype("uint8")
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("L")
    values = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR), "float32").ravel()
    values -= values.mean()
    length = np.linalg.norm(values)
    return values / length if length > SIDE else np.zeros_like(values)  # a deviation below 1 is noise


def near_duplicates(first, second, alike: float = ALIKE) -> list[tuple[int, int, float]]:
    """Return the images of one split that look like an image of another split, with the most similar image.

    Two images look alike if the correlation of their thumbnails is high. Resizing, compression, and a change of
    brightness or contrast keep the correlation high. A crop or a mirror image does not.

    Args:
        first: (N, 256) vectors from `thumbnail`.
        second: (M, 256) vectors of the other split.
        alike: lowest correlation of two images that look alike.

    Returns:
        Tuples (index in the first split, index in the second split, correlation), most similar first.
    """
    first, second = np.asarray(first, "float32"), np.asarray(second, "float32")
    found = []
    for start in range(0, len(first) if len(second) else 0, CHUNK):
        best = np.full(len(first[start : start + CHUNK]), -1.0, "float32")
        index = np.zeros(len(best), int)
        for other in range(0, len(second), CHUNK):
            similarity = first[start : start + CHUNK] @ second[other : other + CHUNK].T
            highest, value = similarity.argmax(axis=1), similarity.max(axis=1)
            index = np.where(value > best, highest + other, index)
            best = np.maximum(best, value)
        found += [(start + int(i), int(index[i]), float(best[i])) for i in np.flatnonzero(best >= alike)]
    return sorted(found, key=lambda row: -row[2])
