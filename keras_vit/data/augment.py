"""Crop, flip, shift, rotate, zoom and erase images by pure functions of a seed or of random draws.

B batch, H W C image.
"""

import math

import tensorflow as tf

ERASED = (0.02, 1 / 3)  # area as a fraction of the image's, as in timm and torchvision
_ASPECT_RATIO, _ATTEMPTS = (0.3, 1 / 0.3), 10  # height / width, as in timm and torchvision


def crop_box(shape, seed, smallest_area: float):
    """Draw the top, left, height and width (4,) of an inception crop, at least a fraction of the image's area."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros((0, 0, 4)),
        seed=seed,
        area_range=(min(smallest_area, 1.0), 1.0),
        min_object_covered=0.0,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], axis=0)


def random_crop(image, seed, smallest_area: float):
    """Return the crop that `crop_box` draws: (H, W, C) -> (h, w, C)."""
    top, left, height, width = tf.unstack(crop_box(tf.shape(image), seed, smallest_area))
    return tf.ensure_shape(image[top : top + height, left : left + width], (None, None, image.shape[-1]))


def random_window(image, draws, size: tuple[int, int]):
    """Crop a window at a uniformly random position: (H, W, C) -> (*size, C). `draws` (2,) in [0, 1) are y and x."""
    spare = tf.cast(tf.shape(image)[:2] - tf.constant(size) + 1, tf.float32)
    top, left = tf.unstack(tf.cast(draws * spare, tf.int32))
    return tf.slice(image, [top, left, 0], [*size, image.shape[-1]])


def padded_window(image, draws, border: int):
    """Pad an image with `border` black pixels, and crop a random window of the image's size."""
    padded = tf.pad(image, [[border, border], [border, border], [0, 0]])
    return random_window(padded, draws, tuple(image.shape[:2]))


def flip(images, draws):
    """Mirror the images of a batch whose draw (B,) is below 0.5, left to right."""
    return tf.where(draws[:, None, None, None] < 0.5, images[:, :, ::-1], images)


def shift_rotate_zoom(images, draws, shift: float, rotate: float, zoom: float):
    """Shift, rotate and zoom each image of a batch; pixels from outside an image are black.

    Args:
        images: float (B, H, W, C).
        draws: (4, B) in [0, 1): vertical shift, horizontal shift, rotation, zoom.
        shift: largest shift as a fraction of the side.
        rotate: largest rotation in degrees.
        zoom: largest change of size as a fraction.
    """
    height, width = images.shape[1:3]
    # float64: Eigen rounds a float32 sine differently in the vectorised part and the rest of a batch, so the parts of
    # workers would differ from the whole batch.
    down, across, angle, size = tf.unstack(2.0 * tf.cast(draws, tf.float64) - 1.0)
    down, across = down * (shift * height), across * (shift * width)
    angle = angle * math.radians(rotate)
    scale = 1.0 / (1.0 + size * zoom)
    cos, sin = tf.cos(angle) * scale, tf.sin(angle) * scale
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    # An output pixel's position in the input.
    left = middle_x - cos * (middle_x + across) + sin * (middle_y + down)
    top = middle_y - sin * (middle_x + across) - cos * (middle_y + down)
    zero = tf.zeros_like(cos)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.cast(tf.stack([cos, -sin, left, sin, cos, top, zero, zero], axis=1), tf.float32),
        output_shape=[height, width],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def erase(image, probability: float, seed):
    """Replace a rectangle of an image (H, W, C) in 0..255 by uniform noise, with a probability (arXiv 1708.04896)."""
    height, width, _ = image.shape
    draws = tf.random.stateless_uniform((5, _ATTEMPTS), seed)

    def erased():
        area = height * width * (ERASED[0] + (ERASED[1] - ERASED[0]) * draws[1])
        low, high = (math.log(ratio) for ratio in _ASPECT_RATIO)
        ratio = tf.exp(low + (high - low) * draws[2])
        sides = tf.cast(tf.round(tf.sqrt([area * ratio, area / ratio])), tf.int32)  # (2, attempts)
        fits = tf.reduce_all(sides < [[height], [width]], axis=0)
        first = tf.argmax(fits)
        side = sides[:, first] * tf.cast(fits[first], tf.int32)  # nothing where no attempt fits
        begin = tf.cast(draws[3:, 0] * tf.cast([height, width] - side + 1, tf.float32), tf.int32)
        down, across = tf.range(height)[:, None, None] - begin[0], tf.range(width)[None, :, None] - begin[1]
        inside = (down >= 0) & (down < side[0]) & (across >= 0) & (across < side[1])
        noise = tf.random.stateless_uniform(image.shape, seed + 1, 0, 256, tf.int32)
        return tf.where(inside, tf.cast(noise, image.dtype), image)

    return tf.cond(draws[0, 0] < probability, erased, lambda: image)
