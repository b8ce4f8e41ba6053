"""A Keras model -> TensorFlow's SavedModel, as TensorFlow Serving loads it.

B batch, H W C image, N tokens, D width, k best classes.
"""

from pathlib import Path

import keras
import tensorflow as tf
from keras import ops

from keras_vit.export.image_bytes import read_images
from keras_vit.export.rollout import rollout_function
from keras_vit.models.interface import describe, named_outputs

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
        self.forward = self._function(lambda images: outputs(images, training=False))
        self.features = self._function(features_function(model))
        self.attention = self._function(attention_function(model))

    def _function(self, call):
        if call is None:
            return None
        # One function for all signatures that share it, so that the graph holds the network once for them.
        images = tf.TensorSpec((None, *self.interface.input_shape), tf.float32, name="images")
        return tf.function(call, [images], autograph=False)

    def signatures(self) -> dict:
        """The functions by name; those that the model cannot answer are left out."""
        seen = self.interface
        reads_files = seen.classes is not None and seen.image_size is not None and seen.input_shape[2] in (1, 3)
        signatures = {
            "serving_default": self.forward,
            "classify_bytes": self._classify_bytes() if reads_files else None,
            "features": self.features,
            "attention": self.attention,
        }
        return {name: function for name, function in signatures.items() if function is not None}

    def _classify_bytes(self):
        interface, forward = self.interface, self.forward
        labels = tf.constant(interface.labels)

        def classify_bytes(image_bytes):
            images, errors = read_images(image_bytes, interface)
            fine = tf.equal(errors, "")[:, None]
            probabilities = tf.where(fine, forward(images)["probabilities"], 0.0)
            scores, classes = tf.math.top_k(probabilities, min(TOP_K, interface.classes))  # (B, k)
            names = tf.where(fine, tf.gather(labels, classes), "")
            return {"probabilities": probabilities, "labels": names, "scores": scores, "error": errors}

        return tf.function(classify_bytes, [tf.TensorSpec((None,), tf.string, name="image_bytes")], autograph=False)


def features_function(model: keras.Model):
    """images (B, H, W, C) -> `pooled` (B, D) and `tokens` (B, N, D) in float32, those of the two that the model has;
    None for a model that has neither."""
    layers = {layer.name: layer for layer in model.layers}
    blocks = sorted(name for name in layers if name.startswith("encoder_block_"))
    named = {"pooled": ("pooled_norm", "pooling"), "tokens": ("encoder_norm", *blocks[-1:])}
    found = {stage: [name for name in names if name in layers] for stage, names in named.items()}
    outputs = {stage: ops.cast(layers[names[0]].output, "float32") for stage, names in found.items() if names}
    stages = keras.Model(model.input, outputs) if outputs else None
    return stages and (lambda images: stages(images, training=False))


def attention_function(model: keras.Model):
    """images (B, H, W, C) -> `rollout` (B, down, across); None for a model without attention."""
    rollout = rollout_function(model)
    return rollout and (lambda images: {"rollout": rollout(images)})


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
