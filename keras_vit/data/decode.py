"""Files and pixels of any size -> images of the size that a model takes.

H W C image.
"""

import tensorflow as tf

from keras_vit.data.augment import crop_box, random_crop
from keras_vit.preprocess import resize


def decode(data):
    """Decode an image file to uint8 (H, W, 3), to the bit as Pillow does for JPEG and PNG."""
    image = tf.cond(
        tf.io.is_jpeg(data),
        lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: decode_other(data),
    )
    return tf.ensure_shape(image, (None, None, 3))


def decode_other(data):
    """Decode an image file that is no JPEG to uint8 (H, W, 3); a BMP fails that has not 24 or 32 bits a pixel, for
    TensorFlow takes numbers of colours for shades of grey."""
    start = tf.io.decode_raw(data, tf.uint8, fixed_length=30)
    refused = tf.reduce_all(start[:2] == list(b"BM")) & (start[28] != 24) & (start[28] != 32)
    return tf.io.decode_image(tf.where(refused, b"", data), channels=3, expand_animations=False)


def decode_crop(data, seed, smallest_area: float):
    """A random part of an image file, as `augment.random_crop` cuts it out, to uint8 (h, w, 3); of a JPEG only that
    part is decoded."""

    def jpeg():
        box = crop_box(tf.image.extract_jpeg_shape(data), seed, smallest_area)
        return tf.io.decode_and_crop_jpeg(data, box, channels=3)

    def other():
        return random_crop(decode_other(data), seed, smallest_area)

    return tf.ensure_shape(tf.cond(tf.io.is_jpeg(data), jpeg, other), (None, None, 3))


def fitted(images, input_shape: tuple[int, int, int], quick: bool = False):
    """Images of any size and 1 or 3 channels -> float32 of the model's (height, width, channels), 0..255.

    Args:
        images: (H, W, C), or a batch of them.
        input_shape: (height, width, channels) of the model.
        quick: whether an image (H, W, C) that is shrunk to no less than half is resized without antialiasing, for
            which bilinear interpolation reads every pixel anyway.
    """
    height, width, channels = input_shape
    if images.shape[-1] == 3 and channels == 1:
        # Pillow's integer formula for grey (ITU-R 601-2), so that files look the same to training and prediction.
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
    """An image resized as it is, until its shorter side has so many pixels: (H, W, C) -> float32 (h, w, C)."""
    sides = tf.cast(tf.shape(image)[:2], tf.float32)
    sides = tf.cast(tf.round(sides * (shorter / tf.reduce_min(sides))), tf.int32)
    return tf.image.resize(image, sides, antialias=True)


def middle(image, size: int | tuple[int, int], input_shape: tuple[int, int, int]):
    """An image brought to `size`, then its middle cut out: (H, W, C) -> float32 of `input_shape`.

    Args:
        image: (H, W, C).
        size: pixels of the shorter side, or (height, width), which squeezes the image.
        input_shape: (height, width, channels) of the model, no larger than that.
    """
    height, width, _ = input_shape
    image = shortened(image, size) if isinstance(size, int) else tf.image.resize(image, size, antialias=True)
    begin = (tf.shape(image)[:2] - [height, width]) // 2
    image = tf.slice(image, [begin[0], begin[1], 0], [height, width, image.shape[-1]])
    return fitted(image, input_shape)
