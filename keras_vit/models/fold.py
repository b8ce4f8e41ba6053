"""Absorb the normalisation of images in a model's first layer.

H W C image, P patch, D features.
"""

from dataclasses import replace

import keras
import numpy as np

from keras_vit.composed import flattened
from keras_vit.layers import PatchEmbedding
from keras_vit.models.adapt import rebuilt
from keras_vit.models.model_interface import ModelInterface, model_interface
from keras_vit.preprocessing.image_spec import store_preprocessing
from keras_vit.private import calls_in

RANGES = ((0, 255), (0, 1))


def fold_normalization(model: keras.Model, value_range: tuple[int, int] = (0, 255)) -> keras.Model:
    """Return a copy of a model that takes RGB pixels, because its first layer also normalises them.

    The first layer is linear. Its kernel absorbs the standard deviation and the channel order, its bias the mean. A
    patch embedding without a bias, as CLIP's, gets one. A layer `rescaling` is left out. The outputs are equal up to
    float32 rounding.

    Args:
        model: a ViT of this package.
        value_range: lowest and highest value of the pixels that the copy takes, (0, 255) or (0, 1).

    Returns:
        The copy. `preprocessing` has mean 0, std 1 / 255 or 1, and the size, resizing and cropping of the model.

    Raises:
        ValueError: the range is another one, the model has several inputs, or its first layer pads the images with
            zeros.
    """
    if tuple(value_range) not in RANGES:
        raise ValueError(f"value_range expected one of {RANGES}, received {value_range!r}.")
    model = flattened(model)
    interface = model_interface(model)
    rescalings, first, norm = _first_layers(model, interface)
    scale, offset = _of_pixels(rescalings, interface)

    def with_bias(layer, config):
        return {**config, "use_bias": True} if layer is first and norm is None else config

    copy = rebuilt(model, with_bias, left_out=rescalings)
    kernel = keras.ops.convert_to_numpy(keras.ops.cast(first.kernel, "float32")).astype("float64")  # (P, P, C, D)
    shift = (kernel * offset[:, None]).sum(axis=(0, 1, 2))
    kernel *= scale[:, None] * 255 / value_range[1]
    spec = interface.preprocessing
    kernel = kernel if spec.channel_order == "RGB" else kernel[:, :, ::-1]
    copy.get_layer(first.name).kernel.assign(kernel.astype("float32"))
    if norm is None:
        _add(copy.get_layer(first.name).bias, shift)
    else:
        _add(copy.get_layer(norm.name).moving_mean, -shift)
    pad = {"fill": _fill(spec)} if spec.resize_mode in ("border", "corner") else {}
    store_preprocessing(copy, replace(spec, mean=(0,), std=(1 / value_range[1],), channel_order="RGB", **pad))
    return copy


def _add(variable, values) -> None:
    variable.assign(keras.ops.cast(variable, "float32") + values.astype("float32"))


def _fill(spec) -> tuple[float, ...]:
    """Return the color of the padding in [0, 1], as RGB."""
    mean = spec.mean if spec.channel_order == "RGB" else spec.mean[::-1]
    return mean if spec.fill is None else spec.fill


def _first_layers(model, interface: ModelInterface):
    """Return the `Rescaling` layers in front, the first linear layer, and the batch norm after it.

    The norm is None if the first layer is a patch embedding. MobileCLIP's stem begins with a convolution of squares
    that do not overlap, without a bias, whose batch norm subtracts the mean instead.
    """
    rescalings, tensor = [], model.inputs[0]
    while isinstance((call := _reader(model, tensor)).operation, keras.layers.Rescaling):
        rescalings.append(call.operation)
        tensor = call.output_tensors[0]
    first = call.operation
    if rescalings and not interface.takes_pixels:
        raise ValueError(f"model expected layers {rescalings[0].name!r} that take pixels in 0..255, received others in "
                         f"{model.name!r}.")  # fmt: skip
    if type(first) is PatchEmbedding:
        return rescalings, first, None
    is_unpadded = isinstance(first, keras.layers.Conv2D) and first.padding == "valid" and not first.use_bias
    after = _reader(model, call.output_tensors[0]).operation
    if first.name == "stem_conv1" and is_unpadded and isinstance(after, keras.layers.BatchNormalization):
        return rescalings, first, after
    raise ValueError(
        f"model expected a patch embedding as its first layer, received {model.name!r} with {first.name!r} "
        f"({type(first).__name__}), for instance one that pads images with zeros, which are the mean before folding "
        "and black after it; build the model with include_preprocessing=True instead."
    )


def _reader(model, tensor):
    """Return the only call in a model's graph that reads a tensor."""
    calls = [call for call in calls_in(model) if any(x is tensor for x in call.input_tensors)]
    if len(calls) != 1:
        raise ValueError(f"model expected one layer that takes the images, received {model.name!r} with {len(calls)}.")
    return calls[0]


def _of_pixels(rescalings, interface: ModelInterface) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and offset by which pixels in 0..255 become the input of the first linear layer: (C,) both."""
    channels, spec = interface.input_shape[2], interface.preprocessing
    if not rescalings:
        mean, std = (np.array(spec.per_channel(values, channels), "float64") for values in (spec.mean, spec.std))
        return 1 / (255 * std), -mean / std
    scale, offset = np.ones(channels), np.zeros(channels)
    for layer in rescalings:
        factor = np.asarray(layer.scale, "float64")
        scale, offset = scale * factor, offset * factor + np.asarray(layer.offset, "float64")
    return scale, offset
