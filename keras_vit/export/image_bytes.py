"""Encoded images -> what a model takes, inside the graph; an image that cannot be read does not fail its batch.

B batch, H W C image.
"""

import tensorflow as tf

from keras_vit.models.interface import Interface
from keras_vit.preprocess import preprocess_input, resize

KINDS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG", "GIF": b"GIF8", "WebP": b"RIFF"}  # and how their files begin


def read_images(image_bytes, interface: Interface):
    """The graph's twin of `preprocess.load_image` for a batch, with an error in place of an exception.

    Args:
        image_bytes: (B,) strings, each the bytes of an image file.
        interface: of the model, with a known image size and 1 or 3 channels.

    Returns:
        Images (B, H, W, C) in the model's range, zeros where there is an error; errors (B,), '' where there is none.
    """
    shape = (*interface.image_size, interface.input_shape[2])
    pixels = _decoded(image_bytes)
    readable = tf.strings.length(pixels) > 0

    def image_of(serialised):
        return tf.cond(
            tf.strings.length(serialised) > 0,
            lambda: tf.ensure_shape(_as_input(serialised, interface), shape),
            lambda: tf.zeros(shape),
        )

    images = tf.map_fn(image_of, pixels, fn_output_signature=tf.TensorSpec(shape, tf.float32))
    return images, tf.where(readable, "", _sentences(image_bytes))


def _decoded(image_bytes):
    """(B,) files -> (B,) serialised uint8 pixels, '' where a file cannot be decoded.

    TensorFlow's decoders raise for their whole batch. A `tf.data` pipeline may lie in a graph, and it is the one
    mechanism of a graph that goes on after an element's error.
    """
    count = tf.shape(image_bytes, out_type=tf.int64)[0]
    options = tf.data.Options()  # optimising so small a pipeline takes longer than running it
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    files = tf.data.Dataset.from_tensor_slices((tf.range(count), image_bytes))
    decoded = files.map(lambda i, data: (i, _decode(data)), num_parallel_calls=2, deterministic=False)
    batch = decoded.ignore_errors().batch(tf.maximum(count, 1)).with_options(options)
    nothing = (tf.zeros((0,), tf.int64), tf.zeros((0,), tf.string))
    places, pixels = batch.reduce(nothing, lambda _, only: only)
    return tf.scatter_nd(places[:, None], pixels, [count])


def _decode(data):
    # This op reads PNG, GIF and WebP too; with the accurate transform it gives Pillow's pixels exactly. Its option
    # try_recover_truncated is no way around the error: with it some broken headers never return.
    image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    size = tf.shape(image)  # of a WebP file (1, H, W, 3), against the op's own static shape
    return tf.io.serialize_tensor(tf.reshape(image, (size[-3], size[-2], 3)))


def _as_input(serialised, interface: Interface):
    """Serialised pixels (h, w, 3) -> one image (H, W, C) as the model takes it."""
    image = tf.ensure_shape(tf.io.parse_tensor(serialised, tf.uint8), (None, None, 3))
    if interface.input_shape[2] == 1:
        image = _grey(image)
    image = resize(image, interface.image_size)
    return image if interface.takes_pixels else preprocess_input(image)


def _grey(image):
    """Luma as Pillow computes it, ITU-R 601 in 16-bit fixed point: (H, W, 3) -> (H, W, 1)."""
    luma = tf.tensordot(tf.cast(image, tf.int32), tf.constant([19595, 38470, 7471]), 1)
    return tf.bitwise.right_shift(luma + 32768, 16)[..., None]


def _sentences(image_bytes):
    """What to say of each file that cannot be decoded: (B,) -> (B,)."""
    size = tf.strings.as_string(tf.strings.length(image_bytes))
    said = tf.strings.join(["expected a JPEG, PNG, GIF or WebP file, received ", size, " other bytes."])
    for kind, start in KINDS.items():
        is_kind = tf.equal(tf.strings.substr(image_bytes, 0, len(start)), start)
        damaged = tf.strings.join([f"expected a whole image, received a damaged {kind} file of ", size, " bytes."])
        said = tf.where(is_kind, damaged, said)
    return tf.strings.join(["image_bytes ", said])
