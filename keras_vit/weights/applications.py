"""Read the EfficientNets of `keras.applications`: whole models, and files of their weights only."""

import re
from pathlib import Path

import numpy as np

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.archive import Refused, WeightsFile

_IMAGENET_STD = (0.229, 0.224, 0.225)


def is_application(model) -> bool:
    """Return whether a Keras model is an EfficientNet of `keras.applications`, by its layers."""
    return {"stem_conv", "block1a_dwconv", "top_conv"} <= {layer.name for layer in model.layers}


def reference_of(path: Path, size: str | None):
    """Return Keras's own model of a size, filled from a file of its weights; None if the file is no such file.

    Args:
        path: an HDF5 file, which names its layers by their kind (`.weights.h5`) or by their names (`.h5`).
        size: name of the size, such as `B0`; None for a model that Keras does not have.

    Raises:
        ValueError: Keras has no model of this size, or the weights do not fit.
    """
    import h5py
    import keras

    with h5py.File(path) as file:
        by_kind = "layers/normalization" in file and "layers/depthwise_conv2d" in file
        if not (by_kind or "stem_conv" in file):
            return None
        biases = ("layers/dense/vars/1", "predictions/predictions/bias:0", "predictions/predictions/bias")
        bias = next((file[name] for name in biases if name in file), None)
        classes = None if bias is None else bias.shape[0]
    builder = getattr(keras.applications, f"EfficientNet{size}", None)
    if builder is None:
        raise Refused(
            f"source expected a model of the size of an EfficientNet among B0 to B7, for {str(path)!r}, which "
            f"keras.applications wrote, received {size or 'another one'}: build the same size."
        )
    top = {"include_top": False} if classes is None else {"classes": classes}
    model = builder(weights=None, input_shape=(32, 32, 3), **top)
    model.load_weights(path)
    return model


class ApplicationsFile(WeightsFile):
    """An EfficientNet of `keras.applications`, as a file of weights.

    Args:
        path: path of the file.
        model: the model that the file holds.
        whole: whether the file holds the model, and not only its weights.
    """

    def __init__(self, path: Path, model, whole: bool):
        super().__init__(path, {})
        layers = [layer for layer in model.layers if layer is not _normalization(model)]
        weights = [weight for layer in layers for weight in layer.weights]
        self._variables = {_numbered(weight.path): weight for weight in weights}
        self.shapes = {path: tuple(variable.shape) for path, variable in self._variables.items()}
        self.spec = _spec_of_layers(model) if whole else _spec_of_weights(model)

    def _read(self, name):
        return np.asarray(self._variables[name], dtype="float32")


def _normalization(model):
    """Return the layer that normalises the images."""
    return next(layer for layer in model.layers if type(layer).__name__ == "Normalization")


def _numbered(path: str) -> str:
    """Return a path with numbers for the letters of units: `block2a_bn/gamma` -> `block2_1_bn/gamma`."""
    return re.sub(r"^block(\d+)([a-z])_", lambda match: f"block{match[1]}_{ord(match[2]) - ord('a') + 1}_", path)


def _spec_of_layers(model) -> ImageSpec:
    """Return mean and standard deviation by what the layers in front of the first convolution compute."""
    import keras

    size = model.inputs[0].shape[1:3]
    known = None if None in size else tuple(size)
    height, width = known or (32, 32)
    front = keras.Model(model.input, model.get_layer("stem_conv_pad").input)
    black, white = (np.asarray(front(np.full((1, height, width, 3), pixel, "float32")))[0, 0, 0] for pixel in (0, 255))
    std = 1 / (white.astype("float64") - black)
    return ImageSpec(size=known, mean=(-black * std).tolist(), std=std.tolist())


def _spec_of_weights(model) -> ImageSpec:
    """Return mean and standard deviation by the variables of the normalisation.

    Keras stores ImageNet's deviations as variances in its published files, and corrects for it by one more layer.
    """
    variables = {variable.name: variable for variable in _normalization(model).variables}
    mean, variance = (np.asarray(variables[name], "float64") for name in ("mean", "variance"))
    published = np.allclose(variance, _IMAGENET_STD, atol=1e-4)
    return ImageSpec(mean=mean.tolist(), std=(variance if published else np.sqrt(variance)).tolist())
