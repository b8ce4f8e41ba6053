"""Random changes to images, each a pure function of (seed, epoch, example): a resumed run sees the same ones.

B batch, H W C image.
"""

import math

import tensorflow as tf

_GOLDEN = 0x9E3779B97F4A7C15


def _mixed(z):
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result hangs on every bit of `z`."""
    z = tf.cast(z, tf.uint64) + tf.constant(_GOLDEN, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(shift, tf.uint64)))
        z = z * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(31, tf.uint64)))


def key(*numbers):
    """One uint64 from several integers; equal inputs give equal keys, any other input another one."""
    z = tf.zeros((), tf.uint64)
    for number in numbers:
        z = _mixed(tf.bitwise.bitwise_xor(z, _mixed(number)))
    return z


def seed_pair(*numbers):
    """`key` as the int64 pair that TensorFlow's stateless operations take."""
    z = key(*numbers)
    return tf.stack([tf.bitcast(z, tf.int64), tf.bitcast(_mixed(z), tf.int64)], axis=-1)


def uniform(slot: int, *numbers):
    """Numbers in [0, 1) for `key(*numbers)`, another one for every `slot`."""
    return tf.cast(tf.bitwise.right_shift(key(*numbers, slot), tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24


def random_crop(image, seed, smallest_area: float):
    """A random part of an image, of random aspect ratio (the "inception crop"): (H, W, C) -> (h, w, C).

    Args:
        image: the whole image.
        seed: int64 pair.
        smallest_area: share of the image, in (0, 1].
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros((0, 0, 4)),
        seed=seed,
        area_range=(min(smallest_area, 1.0), 1.0),
        min_object_covered=0.0,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.ensure_shape(tf.slice(image, begin, size), (None, None, image.shape[-1]))


def flip(images, draws):
    """Mirror the images of a batch whose draw (B,) is below a half."""
    return tf.where(draws[:, None, None, None] < 0.5, images[:, :, ::-1], images)


def shift_rotate_zoom(images, draws, shift: float, rotate: float, zoom: float):
    """Move, turn and scale each image of a batch a little; what comes in from outside is black.

    Args:
        images: float (B, H, W, C).
        draws: (4, B) in [0, 1): down, across, turn, size.
        shift: largest move as a share of the side.
        rotate: largest turn in degrees.
        zoom: largest change of size as a share.
    """
    height, width = images.shape[1:3]
    down, across, turn, size = tf.unstack(2.0 * draws - 1.0)
    down, across = down * (shift * height), across * (shift * width)
    angle = turn * math.radians(rotate)
    scale = 1.0 / (1.0 + size * zoom)
    cos, sin = tf.cos(angle) * scale, tf.sin(angle) * scale
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    # From a pixel of the result to the place it is read from.
    left = middle_x - cos * (middle_x + across) + sin * (middle_y + down)
    top = middle_y - sin * (middle_x + across) - cos * (middle_y + down)
    zero = tf.zeros_like(cos)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.stack([cos, -sin, left, sin, cos, top, zero, zero], axis=1),
        output_shape=[height, width],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def mixup(images, targets, p: float, seed):
    """Blend every example of a batch with its neighbour, images and targets alike (arXiv 1710.09412).

    Args:
        images: float (B, H, W, C).
        targets: (B, classes).
        p: of Beta(p, p), from which the batch's one share is drawn; the larger part stays the example's own.
        seed: int64 pair.
    """
    gammas = tf.random.stateless_gamma((2,), seed, alpha=p)
    share = tf.reduce_max(gammas) / tf.reduce_sum(gammas)
    blend = lambda x: share * x + (1.0 - share) * tf.roll(x, 1, axis=0)  # noqa: E731
    return blend(images), blend(targets)
