"""Find images that show the same picture: copies, other sizes of it, and files that were saved again."""

import io
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from PIL import Image

SIDE = 16  # of the thumbnail that stands for a picture
ALIKE = 3.0  # largest mean difference of two thumbnails of one picture, of 255 grey levels
BANDS = 4  # parts of the 64 bits of a hash; pictures are compared if one part is equal
FLAT = 4.0  # standard deviation in grey levels below which a thumbnail shows nothing to compare


def thumbnail(data: bytes) -> np.ndarray | None:
    """Return a picture of SIDE x SIDE grey levels (uint8), with the EXIF orientation applied; None without one.

    Pictures that are nearly of one colour, and files that Pillow does not read, have none.
    """
    from PIL import ImageOps

    try:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("L", (4 * SIDE, 4 * SIDE))  # JPEG is decoded at a fraction of its size
            small = ImageOps.exif_transpose(image).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    except Exception:  # Pillow raises many types
        return None
    grey = np.asarray(small)
    return None if grey.std() < FLAT else grey


def groups(thumbnails: Iterable[np.ndarray | None]) -> list[int]:
    """Return a number for each picture; near-duplicates have the same number, which is the index of the first.

    Two pictures are near-duplicates if their thumbnails differ by at most `ALIKE` grey levels on average. Pictures are
    compared if one quarter of their difference hashes is equal (64 bits: is a cell of an 8 x 9 picture brighter than
    the cell to its left?).
    """
    thumbnails = list(thumbnails)
    first = list(range(len(thumbnails)))

    def root(i):
        while first[i] != i:
            first[i] = first[first[i]]
            i = first[i]
        return i

    buckets = defaultdict(list)
    for i, grey in enumerate(thumbnails):
        for band in () if grey is None else enumerate(_bands(grey)):
            for j in buckets[band]:
                a, b = root(i), root(j)
                if a != b and np.abs(grey.astype("int16") - thumbnails[j]).mean() <= ALIKE:
                    first[max(a, b)] = min(a, b)
            buckets[band].append(i)
    return [root(i) for i in range(len(thumbnails))]


def _bands(grey: np.ndarray) -> list[bytes]:
    """Return the parts of the difference hash."""
    cells = np.asarray(Image.fromarray(grey).resize((9, 8), Image.Resampling.BOX), "int16")
    bits = np.packbits((np.diff(cells, axis=1) > 0).ravel())
    return [part.tobytes() for part in np.split(bits, BANDS)]
