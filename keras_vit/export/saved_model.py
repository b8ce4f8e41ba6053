"""A Keras model -> TensorFlow's SavedModel, as TensorFlow Serving loads it.

B batch, H W C image, k best classes.
"""

from pathlib import Path

import keras
import tensorflow as tf

from keras_vit.models.interface import Interface, describe, named_outputs
from keras_vit.preprocess import preprocess_input, resize

TOP_K = 5


class ServingModule(tf.Module):
    """A model's inference graph with its weights, and nothing that needs this package to be loaded again.

    It holds each weight once: `keras.Model.export` stores every one twice.

    Args:
        model: a model of this package.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """

    def __init__(self, model: keras.Model):
        if keras.backend.backend() != "tensorflow":
            raise ValueError(f"export expected Keras on TensorFlow, received KERAS_BACKEND={keras.backend.backend()}.")
        super().__init__(name=model.name)
        self.interface = describe(model)
        self.variables_held_once = [variable.value for variable in model.weights]
        outputs = named_outputs(model)
        images = tf.TensorSpec((None, *self.interface.input_shape), tf.float32, name="images")
        # One function for all signatures, so that the graph holds the network once.
        self.forward = tf.function(lambda images: outputs(images, training=False), [images], autograph=False)

    def signatures(self) -> dict:
        """`serving_default` for float images, and `classify_bytes` where the model classifies grey or RGB images."""
        signatures = {"serving_default": self.forward}
        seen = self.interface
        if seen.classes is not None and seen.image_size is not None and seen.input_shape[2] in (1, 3):
            signatures["classify_bytes"] = self._classify_bytes()
        return signatures

    def _classify_bytes(self):
        interface, forward = self.interface, self.forward
        labels = tf.constant(interface.labels)
        shape = (*interface.image_size, interface.input_shape[2])

        def classify_bytes(image_bytes):
            spec = tf.TensorSpec(shape, tf.float32)
            images = tf.map_fn(lambda data: _read(data, interface), image_bytes, fn_output_signature=spec)
            probabilities = forward(images)["probabilities"]
            scores, classes = tf.math.top_k(probabilities, min(TOP_K, interface.classes))  # (B, k)
            return {"probabilities": probabilities, "labels": tf.gather(labels, classes), "scores": scores}

        return tf.function(classify_bytes, [tf.TensorSpec((None,), tf.string, name="image_bytes")], autograph=False)


def _read(data, interface: Interface):
    """One encoded image as the model takes it: the graph's twin of `preprocess.load_image`. () -> (H, W, C)."""
    # This op reads PNG, GIF and WebP too; with the accurate transform it gives Pillow's pixels exactly.
    image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    size = tf.shape(image)  # of a WebP file (1, H, W, 3), against the op's own static shape
    image = tf.reshape(image, (size[-3], size[-2], 3))
    if interface.input_shape[2] == 1:
        image = _grey(image)
    image = resize(image, interface.image_size)
    return image if interface.takes_pixels else preprocess_input(image)


def _grey(image):
    """Luma as Pillow computes it, ITU-R 601 in 16-bit fixed point: (H, W, 3) -> (H, W, 1)."""
    luma = tf.tensordot(tf.cast(image, tf.int32), tf.constant([19595, 38470, 7471]), 1)
    return tf.bitwise.right_shift(luma + 32768, 16)[..., None]


def signatures_of(folder: str | Path) -> dict:
    """The signatures of the SavedModel in `folder` by name: functions of named tensors to a dict of tensors."""
    return dict(tf.saved_model.load(str(folder)).signatures)


def write_saved_model(model: keras.Model, folder: str | Path) -> None:
    """Write a model as a SavedModel into `folder`.

    Args:
        model: a model of this package.
        folder: where `saved_model.pb` and `variables/` are to lie.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """
    module = ServingModule(model)
    tf.saved_model.save(module, str(folder), signatures=module.signatures())
