"""Put adapted models into the SavedModel of their base model. Weights that are equal are stored once.

B batch, H W C image.
"""

import re
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_vit.kernels.dispatch import standardized_kernels, standardized_overrides
from keras_vit.kernels.recompute import with_values
from keras_vit.kernels.saved_model import norm_overrides
from keras_vit.layers.override import Override, overriding
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.private import layers_of

BYTES = "classify_bytes"  # the signature of image files


def check_adapters(model: keras.Model, adapters: dict[str, keras.Model], formats: list[str]) -> None:
    """Raise a ValueError unless adapted models can be stored with their base model."""
    if adapters and list(formats) != ["saved_model"]:
        raise ValueError(
            f"formats expected ['saved_model'] with adapters, which share its weights, received {formats}."
        )
    interface = model_interface(model)
    for name, adapted in adapters.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in (
            "serving_default",
            BYTES,
            "features",
            "attention",
        ):
            raise ValueError(
                f"adapters expected names of letters, digits and _, not of a signature, received {name!r}."
            )
        of_it = model_interface(adapted)
        if (of_it.input_shape, of_it.input_range) != (interface.input_shape, interface.input_range):
            raise ValueError(f"adapters expected models of images {interface.input_shape} in {interface.input_range}, "
                             f"received {name!r} of {of_it.input_shape} in {of_it.input_range}.")  # fmt: skip


def owner_of(signature: str, adapters) -> tuple[str | None, str]:
    """Return the name of the adapter that a signature belongs to, and the signature without that name.

    The name of the base is None.
    """
    for name in adapters:
        if signature in (name, f"{name}_{BYTES}"):
            return name, "serving_default" if signature == name else BYTES
    return None, signature


def adapted_function(base: keras.Model, model: keras.Model, kernels: list) -> tuple[Callable, list]:
    """Return the forward pass of an adapted model with the weights of its base, and its further variables.

    Args:
        base: the base model.
        model: the adapted model.
        kernels: `standardized_kernels` of the base.

    Returns:
        A function images (B, H, W, C) -> outputs by name, and a list of `tf.Variable`.
    """
    of_base = {variable.path: variable for variable in base.weights}
    pairs = [(variable, of_base[variable.path]) for variable in model.weights if _is_equal(variable, of_base)]
    shared = {id(variable) for variable, _ in pairs}
    standardized = standardized_kernels(model)
    if len(standardized) == len(kernels):
        both = zip(standardized, kernels, strict=True)
        standardized = [(layer, of_base if id(layer.kernel) in shared else own) for (layer, own), (_, of_base) in both]
    own = [variable.value for variable in model.weights if id(variable) not in shared]
    own += [variable.value for _, variable in standardized]
    unmerged = [Override(layer, "project", bool) for layer in layers_of(model) if hasattr(layer, "project")]
    overrides = norm_overrides(model) + standardized_overrides(standardized) + unmerged
    outputs = named_outputs(model)

    def infer(images):
        with with_values([(variable, tf.convert_to_tensor(other.value)) for variable, other in pairs]):
            return outputs(images, training=False)

    return overriding(overrides, tf.compat.v1.get_default_graph)(infer), own


def _is_equal(variable, of_base: dict) -> bool:
    other = of_base.get(variable.path)
    same = other is not None and (other.shape, other.dtype) == (variable.shape, variable.dtype)
    return same and np.array_equal(*(keras.ops.convert_to_numpy(x) for x in (variable, other)))
