"""Capture attention weights while layers compute them, and change them if requested."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import keras

from keras_vit.layers.override import Override, override_of, overriding
from keras_vit.private import layers_of

OPERATION = "attention_weights"


@contextlib.contextmanager
def capture_attention(
    layers: Iterable[keras.layers.Layer], change: Callable[[int, Any], Any] | None = None, traced: bool = False
) -> Iterator[list]:
    """Capture the attention weights that layers compute inside the `with`, and change them if requested.

    The capture applies in this thread, and to eager calls such as `model(images)`. A call that is traced into a
    function (`model.predict`, `tf.function`, `jax.jit`) raises an error, because the function would keep the change
    after the `with`. A `with` in which a layer computes nothing raises an error, because a function that was traced
    before ignores the capture. An inner `with` replaces the outer one for its layers.

    Args:
        layers: self-attentions and attention poolings, in the order of the forward pass.
        change: a function (index in `layers`, attention weights) -> the weights to use instead; None changes nothing.
        traced: whether traced calls are allowed. The traced function keeps the change after the `with`.

    Yields:
        A list, to which each call of a layer appends its weights.

    Raises:
        ValueError: a call is traced, or on leaving the `with`, a layer has computed nothing.
    """
    layers, captured, called = list(layers), [], set()

    def capture(index, weights):
        if not traced and _is_traced(weights):
            raise ValueError(
                "capture_attention expected eager calls, received one that is traced into a function, which would keep "
                "the change after the `with`: call model(images) instead of model.predict, or pass traced=True."
            )
        weights = weights if change is None else change(index, weights)
        captured.append(weights)
        called.add(index)
        return weights

    overrides = [Override(layer, OPERATION, partial(capture, index)) for index, layer in enumerate(layers)]
    with overriding([*overrides, *(override._replace(training=True) for override in overrides)]):
        yield captured
    silent = [layer.name for index, layer in enumerate(layers) if index not in called]
    if silent:
        raise ValueError(
            "capture_attention expected every layer to compute inside the `with`, received nothing from "
            f"{', '.join(silent)}: a function that was traced before ignores the `with`, so call model(images) in "
            "place of model.predict."
        )


def is_captured(layer: keras.layers.Layer) -> bool:
    """Return whether the attention weights of a layer are captured in this thread."""
    return override_of(layer, OPERATION) is not None


def is_any_captured(model: keras.Model) -> bool:
    """Return whether the attention weights of one of a model's layers are captured in this thread."""
    return any(is_captured(layer) for layer in layers_of(model))


def _is_traced(tensor) -> bool:
    """Return whether a tensor has no values yet, because its operation is recorded for a function."""
    if keras.backend.is_keras_tensor(tensor):
        return True
    if keras.backend.backend() == "jax":
        import jax

        return isinstance(tensor, jax.core.Tracer)
    if keras.backend.backend() == "torch":
        import torch

        return torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not hasattr(tensor, "numpy")  # TensorFlow's symbolic tensors have no values to return
