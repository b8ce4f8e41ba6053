"""How every model of the table begins and ends: images in, a classifier, the finished Keras model.

B batch, H W C image, D features.
"""

import keras

from keras_vit import layers
from keras_vit.models.lean import LeanModel
from keras_vit.preprocessing.inputs import imagenet_classes
from keras_vit.weights import fill, published_classes, require_classes


def check_top(include_top: bool, classes: int, weights) -> None:
    """Raise a ValueError unless a classifier, if there is to be one, has as many classes as its file."""
    if include_top and (not isinstance(classes, int) or classes < 1):
        raise ValueError(f"classes expected a positive int, received {classes!r}.")
    if include_top and weights is not None:
        require_classes(weights, classes)


def begin(input_tensor, input_shape, image_size: int, include_preprocessing: bool, policy):
    """The images (B, H, W, C) that a model takes, and the same as its first layer takes them, in [-1, 1]."""
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


def published_labels(weights, classes: int) -> list[str] | None:
    """ImageNet-1k's names where the weights are a tag whose classifier, of so many classes, was trained on it."""
    if weights is None or classes != 1000 or published_classes(weights) != classes:
        return None
    return [name for _, name in imagenet_classes()]


def classify(x, classes: int, activation: str | None, labels, weights, policy):
    """The layers `head` and `predictions` on features: (B, D) -> (B, classes)."""
    if labels is None:
        labels = published_labels(weights, classes)
    # Logits and probabilities leave mixed precision: half precision rounds them visibly.
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


def finish(images, outputs, name: str, weights, given=()) -> keras.Model:
    """Return the model from its images, or from what these were made of, to its outputs; fill it from `weights`.

    `given` are the names of the fields that the caller chose, about which a report needs no note.
    """
    sources = keras.utils.get_source_inputs(images)
    model = LeanModel(sources[0] if len(sources) == 1 else sources, outputs, name=name)
    if weights is not None:
        fill(model, weights, given=given)
    return model
