"""The one hook of the layers: a layer computes an operation by another function.

A function is given inside a `with`, or for all layers by a backend that has an operation of its own. Otherwise a layer
computes its reference. `kernels/` chooses the functions. The capture of attention uses the same hook. The operations,
and the layers that have them:

- `norm` (LayerNorm, GroupNorm): (x, gamma, beta, epsilon[, relu]) -> the normalised x
- `standardized_kernel` (StdConv): () -> the standardised kernel
- `convolve` (StdConv): (x, kernel, strides, padding) -> the convolved map
- `add_bias` (layers with a bias): (x, bias) -> x + bias
- `project` (Dense): any function; the layer then multiplies without merging LoRA adapters and SSF factors
- `activation` (MLPBlock): x -> the activation of x
- `forward` (MultiHeadSelfAttention, AttentionWithOptions, MLPBlock): tokens -> the layer's output
- `rotate` (AttentionWithOptions): queries or keys (B, N, h, d), cosines and sines of the angles -> the rotated values
- `attend` (MultiHeadSelfAttention): query, key and value, each (B, N, h, d) -> the attended values (B, N, h, d)
- `class_token_only` (EncoderBlock): any function; the block then returns the class token only
- `attention_weights` (MultiHeadSelfAttention, AttentionPooling): weights -> the weights to use instead
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable
from typing import NamedTuple

import keras

_overrides: contextvars.ContextVar[dict] = contextvars.ContextVar("overrides", default={})  # noqa: B039 - no one changes the default


_of_backend: dict[str, Callable] = {}


class Override(NamedTuple):
    """A function that replaces an operation of a layer.

    Attributes:
        layer: the layer.
        operation: name of the operation.
        function: computes the operation instead.
        training: whether it applies to training; otherwise it applies to inference.
    """

    layer: keras.layers.Layer
    operation: str
    function: Callable
    training: bool = False


@contextlib.contextmanager
def overriding(overrides: Iterable[Override], place: Callable | None = None):
    """Replace operations of layers inside the `with`, in this thread only. An inner `with` wins.

    Args:
        overrides: the replacements. Pass a list where the result is used as a decorator.
        place: returns the current graph. The overrides then apply only in the graph in which the `with` was entered,
            because a function that a layer traces by itself would keep the overrides.
    """
    here = place and place()
    added = {(id(item.layer), item.operation, item.training): (item.function, place, here) for item in overrides}
    token = _overrides.set({**_overrides.get(), **added})
    try:
        yield
    finally:
        _overrides.reset(token)


def use_backend_operations(choices: dict[str, Callable]) -> None:
    """Set the operations that the backend has for all layers: name -> (layer -> the function, or None)."""
    _of_backend.clear()
    _of_backend.update(choices)


def override_of(layer: keras.layers.Layer, operation: str, training: bool = False) -> Callable | None:
    """Return the function that replaces an operation of a layer, or None."""
    key = (id(layer), operation, bool(training))
    function, place, here = _overrides.get().get(key, (None, None, None))
    if function and (place is None or place() is here):
        return function
    choose = _of_backend.get(operation)
    return choose and choose(layer)
