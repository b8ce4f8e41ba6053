"""Build the inference graph of a model for export.

B batch, H W C image, N tokens, D width, k best classes.
"""

import keras
import tensorflow as tf
from keras import ops

from keras_vit.export.adapters import BYTES, adapted_function
from keras_vit.export.image_bytes import read_images
from keras_vit.export.rollout import attention_layers, rollout
from keras_vit.kernels.dispatch import standardized_kernels, standardized_overrides
from keras_vit.kernels.saved_model import norm_overrides, split_variables
from keras_vit.kernels.split_matmuls import split_overrides
from keras_vit.layers import capture_attention
from keras_vit.layers.override import overriding
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.models.vision_model import VisionModel, class_token_only_block
from keras_vit.private import call_of, model_from, output_of

TOP_K = 5


class ServingModule(tf.Module):
    """A model's inference graph and weights, which load without this package.

    Each weight is stored once; `keras.Model.export` stores it twice. All signatures call the same function, and
    TensorFlow prunes the outputs that a signature does not return. The last block is stored twice if the classifier
    reads only its class token. Kernels of `StdConv` are stored standardised.

    Args:
        model: a model of this package.
        calibrated: True for a graph whose activations are measured for integer ranges. Then the last block computes
            all tokens, because the class token alone gives too few values.
        adapters: adapted models by name, which share the weights of `model`. Each has a signature of its name, and one
            of image files. The model's matmuls are then not split.
        served: True for a graph that TensorFlow runs. Then gamma and beta of layer norms are constants, which oneDNN's
            layer norm requires, and in bfloat16 the matmuls of attention and MLPs are split.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """

    def __init__(
        self, model: keras.Model, calibrated: bool = False, served: bool = False, adapters: dict | None = None
    ):
        if keras.backend.backend() != "tensorflow":
            raise ValueError(f"export expected Keras on TensorFlow, received KERAS_BACKEND={keras.backend.backend()}.")
        super().__init__(name=model.name)
        self.interface = model_interface(model)
        kernels, outputs = standardized_kernels(model), named_outputs(model)
        replaced = {id(layer.kernel): [kernel.value] for layer, kernel in kernels}
        overrides = standardized_overrides(kernels)
        if served:
            block = class_token_only_block(outputs)
            split = {} if adapters else split_variables(model, unsplit=[block.attention] if block else [])
            replaced |= {id(weight): [] for layer in split for weight in layer.weights}
            # The names of this attribute and of `variables_held_once` are keys in the SavedModel's checkpoint.
            self.variables_in_parts = [variable for pairs in split.values() for pair in pairs for variable in pair]
            overrides += norm_overrides(model) + split_overrides(model, split)
        self.with_overrides = overriding(overrides, tf.compat.v1.get_default_graph)
        self.variables_held_once = [value for w in model.weights for value in replaced.get(id(w), [w.value])]
        functions, self.variables_of_adapters = [], []
        for name, adapted in (adapters or {}).items():
            forward, own = adapted_function(model, adapted, kernels)
            functions.append((name, forward, model_interface(adapted)))
            self.variables_of_adapters += own
        self.adapters = lambda: functions  # a list as an attribute would be saved, too
        outputs = keras.Model(outputs.input, outputs.output, name=model.name) if calibrated else outputs
        # A plain function: a model or a traced function as an attribute would be saved a second time.
        self.infer = self.with_overrides(lambda images: outputs(images, training=False))

    def function(self, call, batch: int | None = None):
        """Return a `tf.function` of `call` for images (batch, H, W, C)."""
        images = tf.TensorSpec((batch, *self.interface.input_shape), tf.float32, name="images")
        return tf.function(call, [images], autograph=False)

    def signatures(self, model: keras.Model) -> dict:
        """Return the functions of the signatures that the model supports, by name."""
        infer, interface = self.function(self.with_overrides(inference_function(model))), self.interface
        names = infer.get_concrete_function().structured_outputs
        signatures = {name: self.function(lambda images, name=name: infer(images)[name]) for name in names}
        if interface.image_size is not None and interface.input_shape[2] in (1, 3):
            if interface.classes is not None:
                signatures[BYTES] = self._classify_bytes(signatures["serving_default"], interface)
            elif interface.targets:
                signatures["regress_bytes"] = self._regress_bytes(signatures["serving_default"])
        for name, forward, of_adapter in self.adapters():
            signatures[name] = self.function(forward)
            if BYTES in signatures:
                signatures[f"{name}_{BYTES}"] = self._classify_bytes(signatures[name], of_adapter)
        return signatures

    def _regress_bytes(self, forward):
        interface = self.interface
        targets = tf.constant(interface.targets)

        def regress_bytes(image_bytes):
            images, errors = read_images(image_bytes, interface)
            readable = tf.equal(errors, "")[:, None]
            values = tf.where(readable, forward(images)["values"], 0.0)  # (B, T)
            names = tf.where(readable, tf.broadcast_to(targets, tf.shape(values)), "")
            return {"values": values, "targets": names, "error": errors}

        return tf.function(regress_bytes, [tf.TensorSpec((None,), tf.string, name="image_bytes")], autograph=False)

    def _classify_bytes(self, forward, interface):
        labels = tf.constant(interface.labels)

        def classify_bytes(image_bytes):
            images, errors = read_images(image_bytes, interface)
            readable = tf.equal(errors, "")[:, None]
            probabilities = tf.where(readable, forward(images)["probabilities"], 0.0)
            scores, classes = tf.math.top_k(probabilities, min(TOP_K, interface.classes))  # (B, k)
            names = tf.where(readable, tf.gather(labels, classes), "")
            return {"probabilities": probabilities, "labels": names, "scores": scores, "error": errors}

        return tf.function(classify_bytes, [tf.TensorSpec((None,), tf.string, name="image_bytes")], autograph=False)


def inference_function(model: keras.Model):
    """Return a function that computes all outputs in one pass: images (B, H, W, C) -> signature -> name -> tensor.

    Signatures without outputs are left out. Outputs are float32:

    - `serving_default`: the outputs of `named_outputs`.
    - `features`: `pooled` (B, D) and `tokens` (B, N, D), if the model has them.
    - `attention`: `rollout` (B, down, across), if the model has attention.

    A model with a free image size raises an `InvalidArgumentError` for images smaller than a patch.
    """
    layers = {layer.name: layer for layer in model.layers}
    blocks = sorted(name for name in layers if name.startswith("encoder_block_"))
    candidates = {"pooled": ("pooled_norm", "pooling"), "tokens": ("encoder_norm", *blocks[-1:])}
    present = {output: [name for name in names if name in layers] for output, names in candidates.items()}
    features = {
        output: ops.cast(output_of(model, layers[names[0]]), "float32") for output, names in present.items() if names
    }
    named, attention = named_outputs(model), attention_layers(model)
    more = {"features": features} if features else {}
    free_size = None in model.input_shape[1:3]
    more |= {"patches": output_of(model, layers["embedding"])} if "embedding" in layers else {}
    block = class_token_only_block(named)
    start = named.output if block is None else call_of(named, block).input_tensors[0]
    rest = None if block is None else model_from([model.inputs[0], start], named.output, VisionModel)
    network = keras.Model(model.input, {"serving_default": start, **more})

    def infer(images):
        with capture_attention(attention, traced=True) as weights:
            outputs = dict(network(images, training=False))
        patches = outputs.pop("patches", None)
        if patches is not None and free_size:  # a graph of fixed size accepts no other
            tf.debugging.assert_positive(tf.shape(patches)[1:3], "images expected to hold at least one patch")
        if rest is not None:  # the last block for the class token only; features and attention use the whole block
            inputs = [ops.convert_to_tensor(images), outputs["serving_default"]]
            outputs["serving_default"] = rest(inputs, training=False)
        if attention:
            outputs["attention"] = {"rollout": rollout(model, weights, ops.shape(patches)[1:3])}
        return outputs

    return infer
