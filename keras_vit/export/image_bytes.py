"""Decode image files into model inputs inside the graph. An unreadable image does not fail its batch.

B batch, H W C image.
"""

import tensorflow as tf

from keras_vit.models.model_interface import ModelInterface
from keras_vit.preprocessing.graph import apply_orientation, decode_webp, is_still_webp, orientation_of, prepare_image

KINDS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG", "GIF": b"GIF8", "WebP": b"RIFF"}  # kind -> first bytes
STRIP_PIXELS = 2**20  # pixels converted to grey at a time


def read_images(image_bytes, interface: ModelInterface):
    """Decode, orient and resize a batch of image files as `load_image` does, with error messages instead of exceptions.

    Args:
        image_bytes: (B,) strings, the contents of image files.
        interface: inputs of the model, with a known image size and 1 or 3 channels.

    Returns:
        Images (B, H, W, C) in the model's input range, zeros for an unreadable file. Error messages (B,), '' without an
        error.
    """
    shape = (*interface.image_size, interface.input_shape[2])
    count = tf.shape(image_bytes, out_type=tf.int64)[0]
    # One image is decoded in this thread, because starting threads takes as long.
    indices, images = tf.cond(
        count > 1,
        lambda: _readable_images(image_bytes, count, interface, num_parallel_calls=2, deterministic=False),
        lambda: _readable_images(image_bytes, count, interface),
    )
    images = tf.scatter_nd(indices[:, None], images, [count + 1, *shape])[:-1]
    readable = tf.scatter_nd(indices[:, None], tf.ones_like(indices), [count + 1])[:-1] > 0
    return tf.ensure_shape(images, (None, *shape)), tf.where(readable, "", _error_messages(image_bytes))


def _readable_images(image_bytes, count, interface: ModelInterface, **how):
    """Return the indices (N,) and images (N, H, W, C) of the readable files.

    The last image is empty, with the index after the last file. TensorFlow's decoders raise an error for the whole
    batch. A `tf.data` pipeline is the only mechanism of a graph that continues after an error of one element.
    """
    options = tf.data.Options()  # optimising this small pipeline takes longer than running it
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    files = tf.data.Dataset.from_tensor_slices((tf.range(count), image_bytes))
    images = files.map(lambda i, data: (i, _image(data, interface)), **how).ignore_errors()
    empty = tf.zeros((*interface.image_size, interface.input_shape[2]))
    images = images.concatenate(tf.data.Dataset.from_tensors((count, empty)))
    return images.batch(count + 1).with_options(options).get_single_element()


def _image(data, interface: ModelInterface):
    """Decode a file into one model input (H, W, C). Raises an error inside the graph if it is no image."""
    # This operation also decodes PNG and GIF. The accurate transform returns Pillow's pixels exactly. With
    # try_recover_truncated, which would avoid errors, it does not return for some broken headers.
    image = tf.cond(
        is_still_webp(data),
        lambda: decode_webp(data),
        lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
    )
    image = tf.ensure_shape(apply_orientation(image, orientation_of(data)), (None, None, 3))
    if interface.input_shape[2] == 1:
        image = _to_grey(image)
    image = tf.ensure_shape(_resized(image, interface), (*interface.image_size, interface.input_shape[2]))
    return interface.inputs_of(image)


def _resized(image, interface: ModelInterface):
    """Bring uint8 (H, W, C) to the model's size as `load_image` does, without a float32 copy of all pixels."""
    if interface.preprocessing.is_plain_resize:
        return tf.image.resize(image, interface.image_size, antialias=True)
    return prepare_image(image, interface.preprocessing, interface.image_size)


def _to_grey(image):
    """Convert RGB to grey as Pillow does (ITU-R 601 luma in 16-bit fixed point): uint8 (H, W, 3) -> (H, W, 1).

    Strips of rows limit the memory of the int32 copies.
    """
    shape = tf.shape(image)
    rows = tf.maximum(1, STRIP_PIXELS // tf.maximum(1, shape[1]))
    count = (shape[0] + rows - 1) // rows

    def add_strip(i, strips):
        strip = tf.cast(image[i * rows : (i + 1) * rows], tf.int32)
        luma = tf.tensordot(strip, tf.constant([19595, 38470, 7471]), 1) + 32768
        return i + 1, strips.write(i, tf.cast(tf.bitwise.right_shift(luma, 16), tf.uint8)[..., None])

    strips = tf.TensorArray(tf.uint8, count, infer_shape=False, element_shape=(None, None, 1))
    return tf.while_loop(lambda i, _: i < count, add_strip, (0, strips), parallel_iterations=1)[1].concat()


def _error_messages(image_bytes):
    """Return the error message for each file if it cannot be decoded: (B,) -> (B,)."""
    size = tf.strings.as_string(tf.strings.length(image_bytes))
    messages = tf.strings.join(["expected a JPEG, PNG, GIF or WebP file, received ", size, " other bytes."])
    for kind, start in KINDS.items():
        is_kind = tf.equal(tf.strings.substr(image_bytes, 0, len(start)), start)
        damaged = tf.strings.join([f"expected a whole image, received a damaged {kind} file of ", size, " bytes."])
        messages = tf.where(is_kind, damaged, messages)
    return tf.strings.join(["image_bytes ", messages])
