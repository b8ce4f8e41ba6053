"""What a model takes and what it puts out, read from its layers' names. Keras is imported for a Keras model alone.

B batch, H W C image, D width.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class Interface:
    """What a caller must know to feed a model and to read its answer.

    Args:
        input_shape: (height, width, channels); None for a side that is free at run time.
        image_size: (height, width) that images are resized to, free sides filled; None where the model cannot say.
        input_range: lowest and highest value of a pixel, (0, 255) or (-1, 1).
        classes: number of classes, None without a classifier.
        labels: names of the classes; their indices where the model knows none; empty without a classifier.
    """

    input_shape: tuple[int | None, int | None, int]
    image_size: tuple[int, int] | None
    input_range: tuple[float, float]
    classes: int | None
    labels: tuple[str, ...]

    @property
    def takes_pixels(self) -> bool:
        """Whether the model scales pixels 0..255 itself."""
        return self.input_range == (0.0, 255.0)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images that the model is given; raises where it cannot say their size."""
        if self.image_size is None:
            raise ValueError(f"model expected a known image size, received input shape {self.input_shape}.")
        return (*self.image_size, self.input_shape[2])


def describe(model: "keras.Model") -> Interface:
    """Read the interface of a model of this package.

    Raises:
        ValueError: the model does not take one batch of images.
    """
    from keras_vit.composed import flattened

    model = flattened(model)
    shapes = [tuple(tensor.shape) for tensor in model.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError(f"model expected one input (batch, height, width, channels), received inputs {shapes}.")
    layers = {layer.name: layer for layer in model.layers}
    head = layers.get("head")
    labels = getattr(head, "labels", None) or (range(head.units) if head is not None else ())
    return Interface(
        input_shape=shapes[0][1:],
        image_size=_image_size(shapes[0][1:3], layers),
        input_range=(0.0, 255.0) if scales_pixels(model) else (-1.0, 1.0),
        classes=None if head is None else head.units,
        labels=tuple(str(label) for label in labels),
    )


def scales_pixels(model: "keras.Model") -> bool:
    """Whether a model scales pixels 0..255 itself: by `include_preprocessing`, or by a `Rescaling` of a user's own.

    A scale far below one is of pixels.
    """
    import keras

    scales = [layer.scale for layer in model.layers if isinstance(layer, keras.layers.Rescaling)]
    return any(float(np.max(np.abs(scale))) < 0.1 for scale in scales)


def _image_size(sides, layers) -> tuple[int, int] | None:
    """The input's sides, a free one filled with what the position embedding is stored for."""
    if None not in sides:
        return tuple(sides)
    if "position_embedding" not in layers or "embedding" not in layers:
        return None
    grid, patch = layers["position_embedding"].grid, layers["embedding"].patch_size
    stages = [name for name in layers if name.startswith("stem_stage") and "_unit" not in name]
    stride = 4 * 2 ** max(len(stages) - 1, 0) if "stem_root" in layers else 1  # pixels of a hybrid's cell
    return tuple(side or cells * pixels * stride for side, cells, pixels in zip(sides, grid, patch, strict=True))


def named_outputs(model: "keras.Model") -> "keras.Model":
    """A model that shares `model`'s weights and returns a dict of float32 outputs.

    Returns:
        `logits` (B, classes), the output of the layer `head`, and `probabilities` (B, classes), that of `predictions`
        or else the softmax of the logits; without a head `features`, the model's own output.
    """
    from keras import ops

    from keras_vit.composed import flattened
    from keras_vit.models.vision_model import VisionModel
    from keras_vit.private import output_of

    model = flattened(model)
    layers = {layer.name: layer for layer in model.layers}
    if "head" not in layers:
        outputs = {"features": model.output}
    else:
        logits = output_of(model, layers["head"])
        activated = output_of(model, layers["predictions"]) if "predictions" in layers else ops.softmax(logits)
        outputs = {"logits": logits, "probabilities": activated}
    outputs = {name: ops.cast(output, "float32") for name, output in outputs.items()}
    return VisionModel(model.input, outputs, name=model.name)
