"""Decode image files, and bring images to the size of a model's input.

H W C image.
"""

import numpy as np
import tensorflow as tf

from keras_vit.data.augment import crop_box, random_crop
from keras_vit.preprocessing.decode import decode_image
from keras_vit.preprocessing.graph import (
    apply_orientation,
    decode_webp,
    is_still_webp,
    orientation_of,
    oriented_shape,
    stored_box,
)
from keras_vit.preprocessing.inputs import resize


def decode(data, exif: bool = True):
    """Decode an image file to uint8 (H, W, 3). `exif` applies the EXIF orientation.

    JPEG and PNG have exactly the pixels of `preprocessing.decode.decode_image`.
    """
    image = tf.cond(
        tf.io.is_jpeg(data),
        lambda: _turned(tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"), data, exif),
        lambda: decode_other(data, exif),
    )
    return tf.ensure_shape(image, (None, None, 3))


def decode_other(data, exif: bool = True):
    """Decode an image file that is not a JPEG to uint8 (H, W, 3).

    TensorFlow decodes PNG, GIF, BMP and still WebP. Pillow decodes the other kinds, and BMP files with a palette, whose
    indices TensorFlow would take for grey levels.
    """
    start = tf.io.decode_raw(data, tf.uint8, fixed_length=30)

    def begins(text):
        return tf.reduce_all(start[: len(text)] == list(text))

    known = begins(b"\x89PNG") | begins(b"GIF8") | (begins(b"BM") & ((start[28] == 24) | (start[28] == 32)))
    return tf.case(
        [
            (known, lambda: _turned(tf.io.decode_image(data, channels=3, expand_animations=False), data, exif)),
            (is_still_webp(data), lambda: _turned(decode_webp(data), data, exif)),
        ],
        lambda: _by_pillow(data, exif),
    )


@tf.function(input_signature=[tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.bool)], autograph=False)
def _by_pillow(data, exif):
    """Decode by Pillow. As a `tf.function`, it raises TensorFlow's errors also in eager mode."""

    def decoded(data: bytes, exif):
        return np.ascontiguousarray(decode_image(data, exif=bool(exif)))

    return tf.numpy_function(decoded, [data, exif], tf.uint8, stateful=False)


def _turned(image, data, exif: bool):
    return apply_orientation(image, orientation_of(data)) if exif else image


def decode_crop(data, seed, smallest_area: float, exif: bool = True):
    """Decode a random crop of an image file, as `augment.random_crop` of the upright image. Return uint8 (h, w, 3).

    Of a JPEG only the crop is decoded.
    """

    def jpeg():
        shape = tf.image.extract_jpeg_shape(data)
        orientation = orientation_of(data) if exif else tf.constant(1)
        box = crop_box(oriented_shape(shape, orientation), seed, smallest_area)
        part = tf.io.decode_and_crop_jpeg(data, stored_box(box, shape, orientation), channels=3)
        return apply_orientation(part, orientation)

    def other():
        return random_crop(decode_other(data, exif), seed, smallest_area)

    return tf.ensure_shape(tf.cond(tf.io.is_jpeg(data), jpeg, other), (None, None, 3))


def fitted(images, input_shape: tuple[int, int, int], quick: bool = False):
    """Convert images (..., H, W, C) of any size and 1 or 3 channels to a model's input shape, float32 in 0..255.

    With `quick`, an image (H, W, C) that shrinks to half or more is resized without antialiasing. Bilinear
    interpolation then reads every pixel anyway.
    """
    height, width, channels = input_shape
    if images.shape[-1] == 3 and channels == 1:
        # Pillow's integer formula for grey (ITU-R 601-2), so that training and prediction get the same pixels.
        images = tf.cast(tf.round(tf.cast(images, tf.float32)), tf.int32)
        grey = tf.reduce_sum(images * [19595, 38470, 7471], axis=-1, keepdims=True)
        images = (grey + 0x8000) // 0x10000
    if tuple(images.shape[-3:-1]) != (height, width):
        if quick:
            sides = tf.shape(images)
            large = (sides[0] > 2 * height) | (sides[1] > 2 * width)
            images = tf.cond(
                large, lambda: resize(images, (height, width)), lambda: tf.image.resize(images, (height, width))
            )
        else:
            images = resize(images, (height, width))
    images = tf.cast(images, tf.float32)
    return tf.repeat(images, channels, axis=-1) if images.shape[-1] < channels else images


def shortened(image, shorter: int):
    """Resize an image so that its shorter side has `shorter` pixels: (H, W, C) -> float32 (h, w, C)."""
    sides = tf.cast(tf.shape(image)[:2], tf.float32)
    sides = tf.cast(tf.round(sides * (shorter / tf.reduce_min(sides))), tf.int32)
    return tf.image.resize(image, sides, antialias=True)


def middle(image, size: int | tuple[int, int], input_shape: tuple[int, int, int]):
    """Resize an image, then take its center crop: (H, W, C) -> float32 of `input_shape`.

    `size` is the new length of the shorter side, or (height, width), which changes the aspect ratio.
    """
    height, width, _ = input_shape
    image = shortened(image, size) if isinstance(size, int) else tf.image.resize(image, size, antialias=True)
    begin = (tf.shape(image)[:2] - [height, width]) // 2
    image = tf.slice(image, [begin[0], begin[1], 0], [height, width, image.shape[-1]])
    return fitted(image, input_shape)
