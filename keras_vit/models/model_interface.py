"""Read a model's inputs and outputs from the names of its layers. Keras is imported only for a Keras model.

B batch, H W C image, D width.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec, preprocessing_of

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class ModelInterface:
    """The inputs and outputs of a model.

    Args:
        input_shape: (height, width, channels). A side is None if it is free at run time.
        image_size: (height, width) that images are resized to. A free side is the side that the position embedding is
            stored for. None if the size is unknown.
        input_range: lowest and highest value of the input: (0, 255) of a model that scales pixels itself, else those
            of `preprocessing`, such as (-1, 1).
        classes: number of classes; None without a classifier.
        labels: class names, or the class indices if the model has no names; empty without a classifier.
        preprocessing: how images become the input.
        thresholds: probability from which each label applies, where an image has several; None for one class per image.
        targets: names of the values that a regression predicts, in their units; empty for other models.
        ordered: whether the classes are ordered, the lowest first.
    """

    input_shape: tuple[int | None, int | None, int]
    image_size: tuple[int, int] | None
    input_range: tuple[float, float]
    classes: int | None
    labels: tuple[str, ...]
    preprocessing: ImageSpec = PLAIN_SCALING
    thresholds: tuple[float, ...] | None = None
    targets: tuple[str, ...] = ()
    ordered: bool = False

    @property
    def takes_pixels(self) -> bool:
        """Whether the model scales pixels 0..255 itself."""
        return self.input_range == (0.0, 255.0)

    def inputs_of(self, pixels: Any) -> Any:
        """Convert RGB pixels 0..255 (..., C), an array or a tensor, to the model's input."""
        if self.takes_pixels:
            return self.preprocessing.reorder(pixels)
        return self.preprocessing.normalize(pixels)

    def pixels_of(self, inputs: Any) -> Any:
        """Convert model inputs (..., C) to RGB pixels 0..255, the inverse of `inputs_of`."""
        if self.takes_pixels:
            return self.preprocessing.reorder(inputs)
        return self.preprocessing.denormalize(inputs)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images.

        Raises:
            ValueError: the image size is unknown.
        """
        if self.image_size is None:
            raise ValueError(f"model expected a known image size, received input shape {self.input_shape}.")
        return (*self.image_size, self.input_shape[2])


def model_interface(model: "keras.Model") -> ModelInterface:
    """Return the inputs and outputs of a model of this package.

    Raises:
        ValueError: the model does not take one batch of images.
    """
    from keras_vit.composed import flattened
    from keras_vit.layers import OrdinalHead, RegressionHead

    model = flattened(model)
    shapes = [tuple(tensor.shape) for tensor in model.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError(f"model expected one input (batch, height, width, channels), received inputs {shapes}.")
    layers = {layer.name: layer for layer in model.layers}
    head = layers.get("head")
    classes = None if head is None else getattr(head, "classes", head.units)
    labels = tuple(map(str, getattr(head, "labels", None) or range(classes or 0)))
    is_regression = isinstance(head, RegressionHead)
    spec = preprocessing_of(model)
    return ModelInterface(
        input_shape=shapes[0][1:],
        image_size=_image_size(shapes[0][1:3], layers),
        input_range=(0.0, 255.0) if scales_pixels(model) else spec.input_range(shapes[0][3]),
        classes=None if is_regression else classes,
        labels=() if is_regression else labels,
        preprocessing=spec,
        thresholds=getattr(head, "thresholds", None),
        targets=labels if is_regression else (),
        ordered=isinstance(head, OrdinalHead),
    )


def scales_pixels(model: "keras.Model") -> bool:
    """Return whether a model scales pixels in 0..255 itself, by `include_preprocessing` or by a user's `Rescaling`.

    A scale far below one means pixels.
    """
    import keras

    scales = [layer.scale for layer in model.layers if isinstance(layer, keras.layers.Rescaling)]
    return any(float(np.max(np.abs(scale))) < 0.1 for scale in scales)


def _image_size(sides, layers) -> tuple[int, int] | None:
    """Return the image size. A free side is the side that the position embedding is stored for."""
    if None not in sides:
        return tuple(sides)
    if "position_embedding" not in layers or "embedding" not in layers:
        return None
    grid, patch = layers["position_embedding"].grid, layers["embedding"].patch_size
    stages = [name for name in layers if name.startswith("stem_stage") and "_unit" not in name]
    stride = 4 * 2 ** max(len(stages) - 1, 0) if "stem_root" in layers else 1  # pixels of a hybrid's cell
    return tuple(side or cells * pixels * stride for side, cells, pixels in zip(sides, grid, patch, strict=True))


def named_outputs(model: "keras.Model") -> "keras.Model":
    """Return a model that shares `model`'s weights and outputs a dict of float32 tensors.

    Returns:
        A model with the outputs `logits` (B, classes) of the layer `head`, and `probabilities` (B, classes) of the
        layer `predictions`, or else the softmax of the logits. A regression outputs `values` (B, targets). Without a
        head, the output is `features`.
    """
    from keras import ops

    from keras_vit.composed import flattened
    from keras_vit.layers import RegressionHead
    from keras_vit.models.vision_model import VisionModel
    from keras_vit.private import output_of

    model = flattened(model)
    layers = {layer.name: layer for layer in model.layers}
    if "head" not in layers:
        outputs = {"features": model.output}
    elif isinstance(layers["head"], RegressionHead):
        outputs = {"values": output_of(model, layers["head"])}
    else:
        logits = output_of(model, layers["head"])
        activated = output_of(model, layers["predictions"]) if "predictions" in layers else ops.softmax(logits)
        outputs = {"logits": logits, "probabilities": activated}
    outputs = {name: ops.cast(output, "float32") for name, output in outputs.items()}
    return VisionModel(model.input, outputs, name=model.name)
