"""A Keras model -> TensorFlow's SavedModel, as TensorFlow Serving loads it.

B batch, H W C image, N tokens, D width, k best classes.
"""

from pathlib import Path

import keras
import tensorflow as tf
from keras import ops

from keras_vit.export.image_bytes import read_images
from keras_vit.export.rollout import attention_layers, rollout
from keras_vit.kernels.dispatch import standardized_kernels, standardized_overrides
from keras_vit.kernels.served import norm_overrides, split_variables
from keras_vit.kernels.split_matmuls import split_overrides
from keras_vit.layers import capture_attention
from keras_vit.layers.override import overriding
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.models.vision_model import VisionModel, class_token_only_block
from keras_vit.private import call_of, output_of

TOP_K = 5


class ServingModule(tf.Module):
    """A model's inference graph with its weights, and nothing that needs this package to be loaded again.

    It holds each weight once, which `keras.Model.export` stores twice, and the network once, but for a last block of
    which the answer needs the class token alone: every signature calls the same function and takes its share of the
    answers; TensorFlow computes nothing that nobody reads. Kernels of convolutions with weight standardisation are
    held as the convolutions use them, standardised. Served, weights of layer norms are constants of the graph, too.

    Args:
        model: a model of this package.
        served: whether TensorFlow is to run the graph as it is: then norms have the form in which it finds oneDNN's,
            and in bfloat16 attention and MLPs are held in parts.
        measured: whether its numbers are to be measured for the scales of integers: then all tokens are computed, since
            the class token alone gives too few.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """

    def __init__(self, model: keras.Model, measured: bool = False, served: bool = False):
        if keras.backend.backend() != "tensorflow":
            raise ValueError(f"export expected Keras on TensorFlow, received KERAS_BACKEND={keras.backend.backend()}.")
        super().__init__(name=model.name)
        self.interface = model_interface(model)
        kernels, answer = standardized_kernels(model), named_outputs(model)
        in_place = {id(layer.kernel): [kernel.value] for layer, kernel in kernels}
        place = tf.compat.v1.get_default_graph
        overrides = standardized_overrides(kernels)
        if served:
            read = class_token_only_block(answer)
            parts = split_variables(model, whole=[read.attention] if read else [])
            in_place |= {id(weight): [] for layer in parts for weight in layer.weights}
            self.variables_in_parts = [variable for pairs in parts.values() for pair in pairs for variable in pair]
            overrides += norm_overrides(model) + split_overrides(model, parts)
        self.computed = overriding(overrides, place)
        self.variables_held_once = [value for w in model.weights for value in in_place.get(id(w), [w.value])]
        answer = keras.Model(answer.input, answer.output, name=model.name) if measured else answer
        # A plain function: a model or a traced function as an attribute would be saved a second time.
        self.answer = self.computed(lambda images: answer(images, training=False))

    def function(self, call, batch: int | None = None):
        """A graph of `call` for images (batch, H, W, C)."""
        images = tf.TensorSpec((batch, *self.interface.input_shape), tf.float32, name="images")
        return tf.function(call, [images], autograph=False)

    def signatures(self, model: keras.Model) -> dict:
        """The functions of the model by name; those that it cannot answer are left out."""
        infer, seen = self.function(self.computed(inference_function(model))), self.interface
        names = infer.get_concrete_function().structured_outputs
        signatures = {name: self.function(lambda images, name=name: infer(images)[name]) for name in names}
        if seen.classes is not None and seen.image_size is not None and seen.input_shape[2] in (1, 3):
            signatures["classify_bytes"] = self._classify_bytes(signatures["serving_default"])
        return signatures

    def _classify_bytes(self, forward):
        interface = self.interface
        labels = tf.constant(interface.labels)

        def classify_bytes(image_bytes):
            images, errors = read_images(image_bytes, interface)
            fine = tf.equal(errors, "")[:, None]
            probabilities = tf.where(fine, forward(images)["probabilities"], 0.0)
            scores, classes = tf.math.top_k(probabilities, min(TOP_K, interface.classes))  # (B, k)
            names = tf.where(fine, tf.gather(labels, classes), "")
            return {"probabilities": probabilities, "labels": names, "scores": scores, "error": errors}

        return tf.function(classify_bytes, [tf.TensorSpec((None,), tf.string, name="image_bytes")], autograph=False)


def inference_function(model: keras.Model):
    """All that a model answers, in one pass: a function images (B, H, W, C) -> tensors by signature and name.

    Returns:
        The function. Its answers, in float32: `serving_default`, as `named_outputs`; `features`, of which `pooled`
        (B, D) and `tokens` (B, N, D) where the model has them; `attention`, its `rollout` (B, down, across), where it
        has attention. A signature without answers is left out. Of a free image size, images without a whole patch are
        an `InvalidArgumentError`.
    """
    layers = {layer.name: layer for layer in model.layers}
    blocks = sorted(name for name in layers if name.startswith("encoder_block_"))
    named = {"pooled": ("pooled_norm", "pooling"), "tokens": ("encoder_norm", *blocks[-1:])}
    found = {stage: [name for name in names if name in layers] for stage, names in named.items()}
    features = {
        stage: ops.cast(output_of(model, layers[names[0]]), "float32") for stage, names in found.items() if names
    }
    named, attends = named_outputs(model), attention_layers(model)
    outputs = {"features": features} if features else {}
    free_size = None in model.input_shape[1:3]
    outputs |= {"patches": output_of(model, layers["embedding"])} if "embedding" in layers else {}
    block = class_token_only_block(named)
    start = named.output if block is None else call_of(named, block).input_tensors[0]
    rest = None if block is None else VisionModel([model.inputs[0], start], named.output)
    network = keras.Model(model.input, {"serving_default": start, **outputs})

    def infer(images):
        with capture_attention(attends, traced=True) as weights:
            answers = dict(network(images, training=False))
        patches = answers.pop("patches", None)
        if patches is not None and free_size:  # a graph of fixed size takes no other
            tf.debugging.assert_positive(tf.shape(patches)[1:3], "images expected to hold at least one patch")
        if rest is not None:  # beside the whole block, for whose features and attention not everyone asks
            given = [ops.convert_to_tensor(images), answers["serving_default"]]
            answers["serving_default"] = rest(given, training=False)
        if attends:
            answers["attention"] = {"rollout": rollout(model, weights, ops.shape(patches)[1:3])}
        return answers

    return infer


def write_saved_model(model: keras.Model, folder: str | Path) -> None:
    """Write a model as a SavedModel into `folder`.

    Args:
        model: a model of this package.
        folder: where `saved_model.pb` and `variables/` are to lie.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """
    module = ServingModule(model, served=True)
    tf.saved_model.save(module, str(folder), signatures=module.signatures(model))
