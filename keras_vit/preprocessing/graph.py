"""Read EXIF orientations, decode WebP and apply an `ImageSpec` in a TensorFlow graph, for `tf.data` and exports.

`exif.py` and `geometry.py` do the same in NumPy. H W C image, h w model size.
"""

import numpy as np
import tensorflow as tf

from keras_vit.preprocessing.exif import FLIPS_COLUMNS, FLIPS_ROWS, MOST_ENTRIES, MOST_SEGMENTS, ORIENTATION, SWAPS
from keras_vit.preprocessing.geometry import crop_offset, fill_color, resized_sides
from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.preprocessing.resize import rows_first

_NONE = tf.int64.min


@tf.function(input_signature=[tf.TensorSpec((), tf.string)], autograph=False)  # traced once for all graphs
def orientation_of(data):
    """Return the EXIF orientation of a JPEG, PNG or WebP file, int32 in 1 to 8; 1 if it states none or is damaged.

    Args:
        data: the file's bytes, a string ().
    """
    start = tf.io.decode_raw(data, tf.uint8, fixed_length=42)
    return tf.case(
        [
            (_has_bytes(start, b"\xff\xd8"), lambda: _orientation_of_jpeg(data, start)),
            (_has_bytes(start, b"\x89PNG\r\n\x1a\n"), lambda: _orientation_of_png(data, start)),
            (_has_bytes(start, b"RIFF") & _has_bytes(start, b"WEBP", 8), lambda: _orientation_of_webp(data, start)),
        ],
        lambda: tf.constant(1),
    )


@tf.function(
    input_signature=[tf.TensorSpec((None, None, None), tf.uint8), tf.TensorSpec((), tf.int32)], autograph=False
)
def apply_orientation(image, orientation):
    """Apply an EXIF orientation (1 to 8) to the pixels of a file, uint8 (H, W, C)."""

    def turn():
        whole = tf.cond(_is_one_of(orientation, FLIPS_ROWS), lambda: tf.reverse(image, [0]), lambda: image)
        whole = tf.cond(_is_one_of(orientation, FLIPS_COLUMNS), lambda: tf.reverse(whole, [1]), lambda: whole)
        return tf.cond(_is_one_of(orientation, SWAPS), lambda: tf.transpose(whole, (1, 0, 2)), lambda: whole)

    return tf.cond(orientation > 1, turn, lambda: image)


def oriented_shape(shape, orientation):
    """Return (height, width, channels) of an image after `apply_orientation`."""
    return tf.where(_is_one_of(orientation, SWAPS), tf.gather(shape, [1, 0, 2]), shape)


def stored_box(box, shape, orientation):
    """Map a box of the upright image to the image as its file stores it.

    Args:
        box: top, left, height and width in the upright image, int32 (4,).
        shape: (height, width, channels) of the stored image.
        orientation: EXIF orientation, 1 to 8.

    Returns:
        The box in the stored image, int32 (4,).
    """
    top, left, height, width = tf.unstack(tf.where(_is_one_of(orientation, SWAPS), tf.gather(box, [1, 0, 3, 2]), box))
    top = tf.where(_is_one_of(orientation, FLIPS_ROWS), shape[0] - top - height, top)
    left = tf.where(_is_one_of(orientation, FLIPS_COLUMNS), shape[1] - left - width, left)
    return tf.stack([top, left, height, width])


def is_still_webp(data):
    """Return whether a file is a WebP without animation.

    TensorFlow cannot decode animations with 3 channels: it writes out of bounds with `channels=0` and refuses
    `channels=3`. https://developers.google.com/speed/webp/docs/riff_container
    """
    start = tf.io.decode_raw(data, tf.uint8, fixed_length=21)
    animated = _has_bytes(start, b"VP8X", 12) & (start[20] & 2 > 0)
    return _has_bytes(start, b"RIFF") & _has_bytes(start, b"WEBP", 8) & ~animated


def decode_webp(data):
    """Decode a WebP file without animation to uint8 (H, W, 3)."""
    # TensorFlow refuses `channels=3` for files with alpha.
    return tf.io.decode_image(data, expand_animations=False)[..., :3]


def prepare_image(image, spec: ImageSpec, size: tuple[int, int]):
    """Resize an image uint8 (H, W, C), crop and pad it, as `geometry.prepare_image`. Return float32 (h, w, C).

    Raises:
        ValueError: `nearest`, because TensorFlow rounds positions in another way than Pillow.
    """
    if spec.interpolation not in _KERNELS:
        known = tuple(_KERNELS)
        raise ValueError(f"interpolation expected one of {known} in a graph, received {spec.interpolation!r}.")
    channels = image.shape[-1]
    height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float64))
    sides = resized_sides(height, width, spec, size, tf.minimum, tf.maximum, tf.round)
    image = _resize(image, tf.unstack(tf.cast(tf.stack(sides), tf.int32)), spec)
    found, target = tf.shape(image)[:2], tf.constant(size)
    start = crop_offset(tf.maximum(found - target, 0), spec)
    image = tf.slice(image, [start[0], start[1], 0], [*tf.unstack(tf.minimum(found, target)), -1])
    if spec.resize_mode in ("border", "corner"):
        missing = tf.maximum(target - found, 0)
        before = missing // 2 if spec.resize_mode == "border" else tf.zeros_like(missing)
        paddings = [*tf.unstack(tf.stack([before, missing - before], axis=1)), [0, 0]]
        fill = tf.constant(fill_color(spec, channels), tf.float32)
        image = tf.pad(image - fill, paddings) + fill
    return tf.ensure_shape(image, (*size, channels))


def _sinc(x):
    return tf.where(x == 0, tf.ones_like(x), tf.sin(np.pi * x) / tf.where(x == 0, tf.ones_like(x), np.pi * x))


def _cubic(x, a=-0.5):
    near, far = ((a + 2) * x - (a + 3)) * x**2 + 1, ((x - 5) * x + 8) * x * a - 4 * a
    return tf.where(x < 1, near, tf.where(x < 2, far, tf.zeros_like(x)))


def _hamming(x):
    return float(np.float32(0.54)) + float(np.float32(0.46)) * tf.cos(np.pi * x)  # Pillow's constants are floats


_KERNELS = {  # Pillow's filters: half of the width, and the weight at a distance
    "bilinear": (1, lambda x: tf.maximum(1 - x, 0)),
    "bicubic": (2, _cubic),
    "lanczos": (3, lambda x: tf.where(x < 3, _sinc(x) * _sinc(x / 3), tf.zeros_like(x))),
    "hamming": (1, lambda x: tf.where(x < 1, _sinc(x) * _hamming(x), tf.zeros_like(x))),
}
_BITS = 22  # of a weight in Pillow's fixed-point arithmetic


def _resize(image, sides, spec: ImageSpec):
    """Resize uint8 (H, W, C) to float32: exactly as Pillow, or as TensorFlow without antialias."""
    if not spec.antialias:
        resized = tf.image.resize(image, sides, method=spec.interpolation)
        return tf.clip_by_value(tf.cast(resized, tf.float32), 0, 255)
    height, width = tf.unstack(tf.shape(image)[:2])
    rows = lambda x: _resize_rows(x, sides[0], spec.interpolation)  # noqa: E731
    columns = lambda x: tf.transpose(_resize_rows(tf.transpose(x, (1, 0, 2)), sides[1], spec.interpolation), (1, 0, 2))  # noqa: E731
    image = tf.cond(rows_first(height, width, *sides), lambda: columns(rows(image)), lambda: rows(columns(image)))
    return tf.cast(image, tf.float32)


def _resize_rows(image, count, interpolation: str):
    """Resize uint8 (H, W, C) to (count, W, C) in Pillow's integers: a weighted sum of rows, rounded to 8 bits."""
    reach, kernel = _KERNELS[interpolation]
    length = tf.shape(image)[0]
    scale = tf.cast(length, tf.float64) / tf.cast(count, tf.float64)
    stretch = tf.maximum(scale, 1.0)
    centre = (tf.range(tf.cast(count, tf.float64), dtype=tf.float64) + 0.5) * scale  # (h,)
    first = tf.cast(tf.maximum(centre - reach * stretch + 0.5, 0), tf.int32)
    last = tf.minimum(tf.cast(centre + reach * stretch + 0.5, tf.int32), length)
    taps = tf.reduce_max(last - first)
    rows = first[:, None] + tf.range(taps)  # (h, taps)
    weights = kernel(tf.abs(tf.cast(rows, tf.float64) - centre[:, None] + 0.5) / stretch)
    weights = tf.where(rows < last[:, None], weights, tf.zeros_like(weights))
    weights = weights / tf.reduce_sum(weights, axis=1, keepdims=True)
    weights = tf.cast(weights * 2**_BITS + 0.5 * tf.sign(weights), tf.int32)
    rows = tf.minimum(rows, length - 1)

    def add_tap(i, total):
        tap = tf.cast(tf.gather(image, rows[:, i]), tf.int32)
        return i + 1, total + tap * weights[:, i, None, None]

    shape = tf.concat([[count], tf.shape(image)[1:]], axis=0)
    start = tf.fill(shape, 2 ** (_BITS - 1))
    total = tf.while_loop(lambda i, _: i < taps, add_tap, (0, start), parallel_iterations=1)[1]
    return tf.cast(tf.clip_by_value(tf.bitwise.right_shift(total, _BITS), 0, 255), tf.uint8)


def _is_one_of(orientation, values):
    return tf.reduce_any(orientation == tf.constant(values))


def _orientation_of_jpeg(data, start):
    jfif = _has_bytes(start, b"\xff\xe0\0\x10", 2)  # the usual first segment; in most files no other APPn follows
    marker = tf.where(jfif, start[21], start[3])
    more = (marker // 16 == 0xE) | (marker == 0xFE) | (marker == 0xFF)

    def step(at):
        head = tf.io.decode_raw(_bytes_at(data, at, 10), tf.uint16, fixed_length=10, little_endian=False)
        marker, length = tf.cast(head[0], tf.int64), tf.cast(head[1], tf.int64)
        fills = marker == 0xFFFF  # any number of fill bytes may precede a marker
        segment = ((marker // 16 == 0xFFE) | (marker == 0xFFFE)) & (length >= 2)  # APPn or a comment
        found = segment & (marker == 0xFFE1) & tf.reduce_all(head[2:] == [0x4578, 0x6966, 0])  # Exif\0\0
        after = tf.where(fills, at + 1, at + 2 + length)
        return tf.where(segment | fills, after, _NONE), found, at + 10, at + 2 + length

    return tf.cond(more, lambda: _walk(data, 2, step), lambda: tf.constant(1))


def _orientation_of_png(data, start):
    def step(at):
        kind, length = _bytes_at(data, at + 4, 4), _number(data, at)
        more = (kind != b"IDAT") & (tf.strings.length(kind) == 4)
        return tf.where(more, at + 12 + length, _NONE), kind == b"eXIf", _after_exif(data, at + 8), at + 8 + length

    return tf.cond(_has_bytes(start, b"IDAT", 37), lambda: tf.constant(1), lambda: _walk(data, 8, step))


def _orientation_of_webp(data, start):
    def step(at):
        kind, length = _bytes_at(data, at, 4), _number(data, at + 4, little_endian=True)
        after = tf.where(tf.strings.length(kind) == 4, at + 8 + length + length % 2, _NONE)
        return after, kind == b"EXIF", _after_exif(data, at + 8), at + 8 + length

    return tf.cond(_has_bytes(start, b"VP8X", 12), lambda: _walk(data, 12, step), lambda: tf.constant(1))


def _walk(data, first: int, step):
    """Search the segments for the EXIF block, and return its orientation.

    Args:
        data: the file's bytes.
        first: offset of the first segment.
        step: a function of a segment's offset. It returns the next segment's offset (`_NONE` after the last), whether
            the segment holds the EXIF block, and the block's first and last offset.
    """

    def go(at, *_):
        after, found, begin, end = step(at)
        return tf.where(found, _NONE, after), tf.where(found, begin, _NONE), end

    places = (tf.constant(first, tf.int64), tf.constant(_NONE), tf.constant(_NONE))
    _, begin, end = tf.while_loop(lambda at, *_: at != _NONE, go, places, maximum_iterations=MOST_SEGMENTS)
    return tf.cond(begin == _NONE, lambda: tf.constant(1), lambda: _value(data, begin, end))


def _value(data, begin, end):
    """Return the orientation in an EXIF block, which is a TIFF header and a directory."""
    order = _bytes_at(data, begin, 4)

    def read(little_endian: bool):
        at = begin + _number(data, begin + 4, little_endian)
        count = tf.io.decode_raw(_bytes_at(data, at, 2), tf.uint16, fixed_length=2, little_endian=little_endian)[0]
        size = tf.minimum(12 * tf.minimum(tf.cast(count, tf.int64), MOST_ENTRIES), end - at - 2)
        entries = _bytes_at(data, at + 2, tf.maximum(size, 0))
        entries = tf.strings.substr(entries, 0, tf.strings.length(entries) // 12 * 12)
        entries = tf.reshape(tf.io.decode_raw(entries, tf.uint16, little_endian=little_endian), (-1, 6))
        one = [1, 0] if little_endian else [0, 1]  # one 16-bit integer
        wanted = tf.reduce_all(entries[:, :4] == tf.constant([ORIENTATION, 3, *one], tf.uint16), axis=1)
        value = tf.cast(tf.concat([tf.boolean_mask(entries[:, 4], wanted), [1]], axis=0)[0], tf.int32)
        return tf.where((value >= 1) & (value <= 8), value, 1)

    orders = [(order == b"II*\0", lambda: read(True)), (order == b"MM\0*", lambda: read(False))]
    return tf.case(orders, lambda: tf.constant(1))


def _after_exif(data, at):
    """Return the offset after `Exif`, with which some writers begin the block."""
    return tf.where(_bytes_at(data, at, 6) == b"Exif\0\0", at + 6, at)


def _bytes_at(data, at, count):
    """Return at most `count` bytes from offset `at` on; empty after the end."""
    at = tf.minimum(at, tf.cast(tf.strings.length(data), tf.int64))
    return tf.strings.substr(data, at, tf.cast(count, tf.int64))


def _number(data, at, little_endian: bool = False):
    """Return the unsigned 32-bit integer at an offset, as int64."""
    high, low = tf.unstack(
        tf.cast(
            tf.io.decode_raw(_bytes_at(data, at, 4), tf.uint16, fixed_length=4, little_endian=little_endian), tf.int64
        )
    )
    return low * 65536 + high if little_endian else high * 65536 + low


def _has_bytes(raw, text: bytes, at: int = 0):
    """Return whether bytes (n,) contain a text at an offset."""
    return tf.reduce_all(raw[at : at + len(text)] == tf.constant(list(text), tf.uint8))
