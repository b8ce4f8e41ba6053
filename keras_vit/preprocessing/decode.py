"""Decode image files with Pillow.

H W C image.
"""

import io

import numpy as np

from keras_vit.preprocessing.exif import ORIENTATION, apply_orientation, orientation_of
from keras_vit.preprocessing.kinds import KINDS, kind_of, other_kind_of

HEIC_EXTRA = "pip install 'keras-vit-zoo[heic]'"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # number of channels -> Pillow's mode
_FORMATS = {"WebP": "WEBP", "HEIC": "HEIF"}  # Pillow's names where they differ from ours


def decode_image(data: bytes, channels: int = 3, source: str = "data", exif: bool = True) -> np.ndarray:
    """Decode the first image of a file, and apply its EXIF orientation.

    Args:
        data: the bytes of a file of one of the `kinds.KINDS`. HEIC needs the extra `keras-vit-zoo[heic]`.
        channels: 1 for grey, 3 for RGB, 4 for RGBA.
        source: name of the image in error messages.
        exif: whether to apply the EXIF orientation. The decoders of TIFF and HEIC always apply it.

    Returns:
        The pixels, uint8 (H, W, channels).

    Raises:
        ValueError: `data` is no such image or is damaged, it has more than 16 bits per channel or more pixels than
            Pillow's limit for decompression bombs, or the package for its kind is not installed.
    """
    from PIL import Image

    if channels not in _MODES:
        raise ValueError(f"channels expected one of {tuple(_MODES)}, received {channels!r}.")
    kind = kind_of(data)
    if kind is None:
        raise ValueError(f"{source} expected an image file ({', '.join(KINDS)}), received {_other(data)}.")
    if needed := missing_package(kind):
        raise ValueError(f"{source} expected an image that can be decoded here, received {kind}: {needed}.")
    try:
        # Only the format of these bytes: Pillow's other readers recognise files by other rules.
        with Image.open(io.BytesIO(data), formats=[_FORMATS.get(kind, kind)]) as image:
            deep = image.mode in ("I", "F") and kind != "PNG"
            pixels = None if deep else _pixels(image, _MODES[channels])
            turn = image.getexif().get(ORIENTATION, 1) if kind == "AVIF" else orientation_of(data)
    except Image.DecompressionBombError:
        most = 2 * Image.MAX_IMAGE_PIXELS
        raise ValueError(f"{source} expected an image of at most {most:,} pixels, received one of more.") from None
    except MemoryError:
        raise
    except Exception:  # Pillow does not document what its readers raise for a damaged file
        sentence = f"{source} expected a whole image, received a damaged {kind} file of {len(data):,} bytes."
        raise ValueError(sentence) from None
    if deep:
        raise ValueError(f"{source} expected an image of at most 16 bits per channel, received a {kind} of 32.")
    return apply_orientation(pixels.reshape(*pixels.shape[:2], channels), turn if exif else 1)


def missing_package(kind: str | None) -> str | None:
    """Return the command that installs the package for a kind of image; None if nothing is missing."""
    if kind == "AVIF":
        from PIL import features

        return None if features.check("avif") else "pip install 'pillow>=11.3'"
    if kind == "HEIC":
        try:
            import pillow_heif
        except ImportError:
            return HEIC_EXTRA
        pillow_heif.register_heif_opener()
    return None


def _pixels(image, mode: str) -> np.ndarray:
    """Convert a Pillow image to one of Pillow's modes with 8 bits per channel; return its pixels."""
    from PIL import Image

    frame = image.tile[0][1] if image.format == "GIF" else None
    # `convert` clips 16-bit grey (mode I in older Pillow); take the high bytes, as TensorFlow does.
    if image.mode.startswith("I;16") or image.mode == "I":
        image = Image.fromarray((np.asarray(image) >> 8).astype("uint8"))
    pixels = np.asarray(image.convert(mode))
    return pixels if frame in (None, (0, 0, *image.size)) else _of_frames(image, pixels, *frame)


def _of_frames(image, pixels: np.ndarray, left: int, top: int, right: int, bottom: int) -> np.ndarray:
    """Return the first frame of a GIF on TensorFlow's canvas.

    That canvas has the size of the largest frame, and is zero outside the first frame.
    """
    sides = [right - left, bottom - top]
    for i in range(1, image.n_frames):
        image.seek(i)
        if image.tile:
            frame = image.tile[0][1]
            sides = [max(sides[0], frame[2] - frame[0]), max(sides[1], frame[3] - frame[1])]
    canvas = np.zeros((sides[1], sides[0], *pixels.shape[2:]), pixels.dtype)
    bottom, right = min(bottom, sides[1]), min(right, sides[0])
    canvas[top:bottom, left:right] = pixels[top:bottom, left:right]
    return canvas


def _other(data: bytes) -> str:
    kind = other_kind_of(data)
    return f"a {kind} file" if kind else f"{len(data):,} other bytes"
