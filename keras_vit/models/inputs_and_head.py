"""The layers that all models begin and end with: the image input and the classifier.

B batch, H W C image, D features.
"""

import keras

from keras_vit import layers
from keras_vit.models.conventions import published_labels
from keras_vit.models.vision_model import VisionModel
from keras_vit.weights import load_file


def image_input(input_tensor, input_shape, image_size: int, include_preprocessing: bool, policy):
    """Return the model's images (B, H, W, C), and the same images in [-1, 1] for the first layer."""
    if input_shape is not None and len(input_shape) != 3:
        raise ValueError(f"input_shape expected (height, width, channels), received {input_shape!r}.")
    if input_tensor is None:
        images = keras.Input(input_shape or (image_size, image_size, 3), name="images")
    elif keras.backend.is_keras_tensor(input_tensor):
        images = input_tensor
    else:
        images = keras.Input(tensor=input_tensor, name="images")
    if include_preprocessing:
        return images, keras.layers.Rescaling(1 / 127.5, offset=-1.0, name="rescaling", dtype=policy)(images)
    return images, images


def classifier(x, classes: int, activation: str | None, labels, weights, policy):
    """Call the layers `head` and `predictions`: (B, D) -> (B, classes)."""
    if labels is None:
        labels = published_labels(weights, classes)
    # Logits and probabilities stay in float32 under mixed precision, because half precision rounds them visibly.
    exact = "float32" if policy.name.startswith("mixed") else policy
    x = layers.Head(classes, labels=labels, name="head", dtype=exact)(x)
    if activation in (None, "linear"):
        return x
    try:
        function = keras.activations.get(activation)
    except ValueError:
        raise ValueError(
            f"classifier_activation expected a Keras activation or None, received {activation!r}."
        ) from None
    return keras.layers.Activation(function, name="predictions", dtype="float32")(x)


def finished_model(images, outputs, name: str, weights, chosen=()) -> keras.Model:
    """Return the model from its images to its outputs, filled from `weights`.

    Args:
        images: the images, or a tensor that Keras layers compute from a model input.
        outputs: the output tensor.
        name: name of the model.
        weights: tag or file; None leaves the initial values.
        chosen: names of the options that the caller chose. The report of the loaded weights has no note about these.
    """
    sources = keras.utils.get_source_inputs(images)
    model = VisionModel(sources[0] if len(sources) == 1 else sources, outputs, name=name)
    if weights is not None:
        load_file(model, weights, chosen=chosen)
    return model
