"""Reading and changing attention weights while layers compute."""

import contextlib
import contextvars
from functools import partial

import keras

from keras_vit.private import layers_of

_watches = contextvars.ContextVar("watches", default={})  # noqa: B039 - nobody changes it


@contextlib.contextmanager
def watching(layers, change=None, traced: bool = False):
    """Capture the attention weights that these layers compute inside the `with`, and change them if asked to.

    It applies in this thread, and to eager calls such as `model(images)`. A call that is traced into a function
    (`model.predict`, `tf.function`, `jax.jit`) is refused, because the function would keep the change after the `with`;
    so is a `with` in which a layer computes nothing, because a function that was traced before ignores it. An inner
    `with` replaces the outer one for its layers.

    Args:
        layers: self-attentions and attention poolings, in the order of the forward pass.
        change: a function (index in `layers`, attention weights) -> the weights to use instead; None keeps them.
        traced: whether traced calls are allowed. The traced function then keeps the change for good.

    Yields:
        A list, to which each call of a layer appends its weights.

    Raises:
        ValueError: a call is traced, or on leaving the `with`, a layer has computed nothing.
    """
    layers, seen, called = list(layers), [], set()

    def watch(index, weights):
        if not traced and _is_traced(weights):
            raise ValueError(
                "watching expected eager calls, received one that is traced into a function, which would keep the "
                "change after the `with`: call model(images) in place of model.predict, or pass traced=True."
            )
        weights = weights if change is None else change(index, weights)
        seen.append(weights)
        called.add(index)
        return weights

    watches = {id(layer): partial(watch, index) for index, layer in enumerate(layers)}
    token = _watches.set({**_watches.get(), **watches})
    try:
        yield seen
    finally:
        _watches.reset(token)
    silent = [layer.name for index, layer in enumerate(layers) if index not in called]
    if silent:
        raise ValueError(
            f"watching expected every layer to compute inside the `with`, received nothing from {', '.join(silent)}: a "
            "function that was traced before ignores the `with`, so call model(images) in place of model.predict."
        )


def watch_of(layer):
    """Return the function that a layer passes its attention weights through, or None."""
    return _watches.get().get(id(layer))


def is_watched(model: keras.Model) -> bool:
    """Return whether the attention of one of a model's layers is captured in this thread."""
    watches = _watches.get()
    return bool(watches) and any(id(layer) in watches for layer in layers_of(model))


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
