"""Encoded images -> what a model takes, inside the graph; an image that cannot be read does not fail its batch.

B batch, H W C image.
"""

import tensorflow as tf

from keras_vit.models.model_interface import ModelInterface
from keras_vit.preprocessing.graph import decode_webp, is_still_webp, orientation_of, turned
from keras_vit.preprocessing.inputs import preprocess_input

KINDS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG", "GIF": b"GIF8", "WebP": b"RIFF"}  # and how their files begin
STRIP_PIXELS = 2**20  # pixels converted to grey at a time


def read_images(image_bytes, interface: ModelInterface):
    """The graph's twin of `preprocess.load_image` for a batch, with an error in place of an exception.

    Args:
        image_bytes: (B,) strings, each the bytes of an image file.
        interface: of the model, with a known image size and 1 or 3 channels.

    Returns:
        Images (B, H, W, C) in the model's range, zeros where there is an error; errors (B,), '' where there is none.
    """
    shape = (*interface.image_size, interface.input_shape[2])
    count = tf.shape(image_bytes, out_type=tf.int64)[0]
    # One image alone is read in place: starting threads for it takes as long as reading it.
    places, images = tf.cond(
        count > 1,
        lambda: _whole_images(image_bytes, count, interface, num_parallel_calls=2, deterministic=False),
        lambda: _whole_images(image_bytes, count, interface),
    )
    images = tf.scatter_nd(places[:, None], images, [count + 1, *shape])[:-1]
    readable = tf.scatter_nd(places[:, None], tf.ones_like(places), [count + 1])[:-1] > 0
    return tf.ensure_shape(images, (None, *shape)), tf.where(readable, "", _sentences(image_bytes))


def _whole_images(image_bytes, count, interface: ModelInterface, **how):
    """Which files can be read, (N,), and their images (N, H, W, C); the last one is behind the last file, and empty.

    TensorFlow's decoders raise for their whole batch. A `tf.data` pipeline may lie in a graph, and it is the one
    mechanism of a graph that goes on after an element's error.
    """
    options = tf.data.Options()  # optimising so small a pipeline takes longer than running it
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    files = tf.data.Dataset.from_tensor_slices((tf.range(count), image_bytes))
    images = files.map(lambda i, data: (i, _image(data, interface)), **how).ignore_errors()
    empty = tf.zeros((*interface.image_size, interface.input_shape[2]))
    images = images.concatenate(tf.data.Dataset.from_tensors((count, empty)))
    return images.batch(count + 1).with_options(options).get_single_element()


def _image(data, interface: ModelInterface):
    """A file's bytes -> one image (H, W, C) as the model takes it; fails for what is no image."""
    # This op reads PNG and GIF too; with the accurate transform it gives Pillow's pixels exactly. Its option
    # try_recover_truncated is no way around the error: with it some broken headers never return.
    image = tf.cond(
        is_still_webp(data),
        lambda: decode_webp(data),
        lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
    )
    image = tf.ensure_shape(turned(image, orientation_of(data)), (None, None, 3))
    if interface.input_shape[2] == 1:
        image = _grey(image)
    image = tf.ensure_shape(_resized(image, interface.image_size), (*interface.image_size, interface.input_shape[2]))
    return image if interface.takes_pixels else preprocess_input(image)


def _resized(image, size):
    """Resize uint8 (H, W, C) to float32, with the values of `preprocess.resize` and no float32 copy of all pixels."""
    return tf.image.resize(image, size, antialias=True)


def _grey(image):
    """Luma as Pillow computes it, ITU-R 601 in 16-bit fixed point: uint8 (H, W, 3) -> (H, W, 1).

    A strip of rows at a time: int32 copies of a whole image would take five times the memory of its pixels.
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


def _sentences(image_bytes):
    """What to say of each file that cannot be decoded: (B,) -> (B,)."""
    size = tf.strings.as_string(tf.strings.length(image_bytes))
    said = tf.strings.join(["expected a JPEG, PNG, GIF or WebP file, received ", size, " other bytes."])
    for kind, start in KINDS.items():
        is_kind = tf.equal(tf.strings.substr(image_bytes, 0, len(start)), start)
        damaged = tf.strings.join([f"expected a whole image, received a damaged {kind} file of ", size, " bytes."])
        said = tf.where(is_kind, damaged, said)
    return tf.strings.join(["image_bytes ", said])
