"""RandAugment (arXiv 1909.13719) as a pure function of its draws. Only the drawn operation of each layer is computed.

The sixteen operations and their magnitudes follow the published ViT training (big_vision, from EfficientNet). Magnitude
10 is AutoAugment's full strength, and 30 is the maximum. Each operation computes what Pillow computes, in uint8.
Differences from big_vision:
- Translation and cut-out scale with the image. At 224 pixels they are the same.
- Contrast blends with the mean grey, as Pillow does. big_vision blends with the number of pixels / 256.
- Posterising keeps at least one bit.

H W C image, uint8; rows (H, W * C), to which per-channel values are tiled without broadcasting.
"""

import functools
import math

import numpy as np
import tensorflow as tf

GREY = 128  # fill value outside the image
LUMA = (19595 / 65536, 38470 / 65536, 7471 / 65536)  # Pillow's ITU-R 601-2 weights; exact in float32
GEOMETRIC = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
NAMES = ("AutoContrast", "Equalize", "Invert", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast",
         "Brightness", "Sharpness", "Cutout", *GEOMETRIC)  # fmt: skip
PLAIN = NAMES[: -len(GEOMETRIC)]


def rand_augment(image, count: int, magnitude: float, seed):
    """Apply `count` operations, drawn with replacement, to an image: uint8 (H, W, 1 or 3) of static shape.

    `magnitude` is the strength, 0 to 30; 10 is AutoAugment's full strength.
    """
    draws = tf.random.stateless_uniform((count, 4), seed)
    for layer in range(count):
        image = one_of(image, magnitude, draws[layer])
    return image


def one_of(image, magnitude: float, draws):
    """Apply one operation. `draws` (4,) in [0, 1) select the operation, its sign, and the place of a cut-out."""
    which = tf.cast(draws[0] * len(NAMES), tf.int32)
    table = tf.stack([affine(name, magnitude, draws[1] < 0.5, image.shape) for name in GEOMETRIC])
    # The raw operation calls one branch. `tf.switch_case` would inline all branches, and skip their nodes one by one.
    (changed,) = tf.raw_ops.StatelessCase(
        branch_index=tf.minimum(which, len(PLAIN)),
        input=[image, draws, table[tf.maximum(which - len(PLAIN), 0)]],
        Tout=[tf.uint8],
        branches=_branches(tuple(image.shape), magnitude),
        output_shapes=[image.shape],
    )
    return tf.ensure_shape(changed, image.shape)


@functools.lru_cache(maxsize=8)
def _branches(shape, magnitude: float) -> tuple:
    """Return the traced functions of `PLAIN` and of the geometric operations, for images of a shape."""
    spec = (tf.TensorSpec(shape, tf.uint8), tf.TensorSpec((4,)), tf.TensorSpec((6,)))

    def branch(change):
        return tf.function(change, autograph=False).get_concrete_function(*spec)

    with tf.init_scope():  # outside of the caller's graph
        plain = [branch(lambda x, d, a, name=name: tf.identity(apply(name, x, magnitude, d))) for name in PLAIN]
        return (*plain, branch(lambda x, d, a: moved(x, a)))


def apply(name: str, image, magnitude: float, draws):
    """Apply the named operation: uint8 (H, W, C) -> uint8 (H, W, C)."""
    level = magnitude / 10
    enhance = 1.8 * level + 0.1
    if name in GEOMETRIC:
        return moved(image, affine(name, magnitude, draws[1] < 0.5, image.shape))
    if name == "AutoContrast":
        return autocontrast(image)
    if name == "Equalize":
        return equalize(image)
    if name == "Invert":
        return 255 - image
    if name == "Posterize":
        return tf.bitwise.bitwise_and(image, tf.constant(256 - 2 ** (8 - min(max(int(4 * level), 1), 8)), tf.uint8))
    if name == "Solarize":
        return solarize(image, int(256 * level))
    if name == "SolarizeAdd":
        # Adds to values below 128, saturating at 255.
        added = image + tf.minimum(255 - image, tf.constant(min(int(110 * level), 255), tf.uint8))
        return added + (image - added) * tf.cast(image >= 128, tf.uint8)
    if name == "Color":
        return image if image.shape[-1] == 1 else enhanced(image, _grey(image), enhance)
    if name == "Contrast":
        means = tf.reduce_mean(tf.reduce_mean(tf.cast(image, tf.float32), axis=0), axis=0)
        mean = tf.floor(tf.reduce_sum(means * LUMA if image.shape[-1] == 3 else means) + 0.5)
        return enhanced(image, mean, enhance)
    if name == "Brightness":
        return enhanced(image, 0.0, enhance)
    if name == "Sharpness":
        return sharpen(image, enhance)
    return cut_out(image, level * 40 / 224, draws[2:])


def affine(name: str, magnitude: float, negative, shape):
    """Return coefficients (a, b, c, d, e, f): pixel (x, y) samples (a x + b y + c, d x + e y + f)."""
    height, width = shape[:2]
    level = magnitude / 10
    if name == "Rotate":
        cos, sin = math.cos(math.radians(30 * level)), math.sin(math.radians(30 * level))
        x, y = (width - 1) / 2, (height - 1) / 2
        there, back = ([cos, -s, x - cos * x + s * y, s, cos, y - s * x - cos * y] for s in (sin, -sin))
    else:
        place = {"ShearX": (1, 0.3), "ShearY": (3, 0.3), "TranslateX": (2, 100 / 224 * width),
                 "TranslateY": (5, 100 / 224 * height)}[name]  # fmt: skip
        there, back = ([1.0, 0.0, 0.0, 0.0, 1.0, 0.0] for _ in range(2))
        there[place[0]], back[place[0]] = place[1] * level, -place[1] * level
    return tf.where(negative, tf.constant(back), tf.constant(there))


def moved(image, numbers):
    """Resample an image by the coefficients of `affine`, nearest neighbour, grey outside."""
    height, width, channels = image.shape
    a, b, c, d, e, f = tf.unstack(numbers)
    x, y = tf.range(width, dtype=tf.float32)[None], tf.range(height, dtype=tf.float32)[:, None]
    from_x = tf.floor((a * x + (c + 0.5)) + b * y)
    from_y = tf.floor((d * x + (f + 0.5)) + e * y)
    outside = (from_x < 0) | (from_x >= width) | (from_y < 0) | (from_y >= height)
    place = tf.where(outside, tf.constant(float(height * width)), from_y * width + from_x)
    pixels = tf.concat([tf.reshape(image, (-1, channels)), tf.fill((1, channels), tf.constant(GREY, tf.uint8))], 0)
    return tf.gather(pixels, tf.cast(place, tf.int32))


def _rows(image):
    """Reshape (H, W, C) -> (H, W * C)."""
    return tf.reshape(image, (image.shape[0], image.shape[1] * image.shape[2]))


def _per_row(values, image):
    """Tile per-channel values (C,) -> (W * C,) for `_rows`."""
    return tf.tile(values, [image.shape[1]])


def _grey(image):
    """Convert (H, W, 3) to grey (H, W, 1), rounded as Pillow does."""
    pixels = tf.reshape(tf.cast(image, tf.float32), (-1, 3))
    grey = tf.floor(tf.linalg.matvec(pixels, tf.constant(LUMA)) + 0.5)
    return tf.reshape(grey, (*image.shape[:2], 1))


def enhanced(image, plain, factor: float):
    """Blend: `image` at factor 1, `plain` at factor 0, extrapolated beyond."""
    blended = tf.cast(image, tf.float32) * factor + plain * (1.0 - factor)
    # The offset keeps rounding errors just below an integer from being truncated to the integer before.
    return tf.cast(tf.clip_by_value(blended + 1e-3, 0.0, 255.0), tf.uint8)


def solarize(image, threshold: int):
    """Invert the values at or above a threshold."""
    if threshold > 255:
        return image
    return tf.bitwise.bitwise_xor(image, tf.cast(image >= threshold, tf.uint8) * 255)


def autocontrast(image):
    """Stretch each channel so that its darkest pixel is 0 and its brightest 255."""
    channels = image.shape[-1]
    rows = _rows(image)
    low, high = (
        tf.cast(f(tf.reshape(f(rows, axis=0), (-1, channels)), axis=0), tf.float32)
        for f in (tf.reduce_min, tf.reduce_max)
    )
    flat = high <= low
    scale = tf.where(flat, 1.0, 255.0 / (high - low))
    offset = tf.where(flat, 0.0, -low * scale)
    stretched = tf.cast(rows, tf.float32) * _per_row(scale, image) + _per_row(offset, image)
    return tf.reshape(tf.cast(tf.clip_by_value(stretched + 1e-3, 0.0, 255.0), tf.uint8), image.shape)


def equalize(image):
    """Equalise the histogram of each channel."""
    channels = image.shape[-1]
    levels = tf.cast(_rows(image), tf.int32) + _per_row(256 * np.arange(channels, dtype="int32"), image)
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(levels, [-1]), size=256 * channels, weights=tf.zeros((0,), tf.int32), binary_output=False
    )
    counts = tf.reshape(counts, (channels, 256))
    brightest = tf.reduce_max(tf.where(counts > 0, tf.range(256), 0), axis=1)
    step = (image.shape[0] * image.shape[1] - tf.gather(counts, brightest, batch_dims=1))[:, None] // 255
    table = (tf.cumsum(counts, axis=1, exclusive=True) + step // 2) // tf.maximum(step, 1)
    table = tf.where(step == 0, tf.range(256), tf.minimum(table, 255))
    spread = tf.gather(tf.reshape(tf.cast(table, tf.uint8), [-1]), levels)
    return tf.reshape(spread, image.shape)


def sharpen(image, factor: float):
    """Blend with the image smoothed by a 3 x 3 filter whose center has weight 5. The border stays."""
    pixels = tf.cast(image, tf.float32)
    smooth = pixels[:-2] + pixels[1:-1] + pixels[2:]
    smooth = smooth[:, :-2] + smooth[:, 1:-1] + smooth[:, 2:]
    smooth = tf.floor((smooth + 4.0 * pixels[1:-1, 1:-1]) / 13.0 + 0.5)
    inner = enhanced(pixels[1:-1, 1:-1], smooth, factor)
    inner = tf.concat([image[1:-1, :1], inner, image[1:-1, -1:]], axis=1)
    return tf.concat([image[:1], inner, image[-1:]], axis=0)


def cut_out(image, half: float, draws):
    """Fill a square around a random position with grey. `half` is half of its side as a fraction of the image's."""
    height, width, channels = image.shape
    centre = tf.cast(draws * tf.constant([height, width], tf.float32), tf.int32)
    reach = np.array([int(half * height), int(half * width)])
    (top, left), (bottom, right) = (tf.unstack(x) for x in (
        tf.maximum(centre - reach, 0), tf.minimum(centre + reach, [height, width])
    ))  # fmt: skip
    grey = tf.fill((bottom - top, right - left, channels), tf.constant(GREY, tf.uint8))
    across = tf.concat([image[top:bottom, :left], grey, image[top:bottom, right:]], axis=1)
    return tf.concat([image[:top], across, image[bottom:]], axis=0)
