"""Initialise the variables of layers from arrays instead of random values."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_vit.private import track_variable

_values: contextvars.ContextVar[Callable | None] = contextvars.ContextVar("values", default=None)


@contextlib.contextmanager
def use_initial_values(values: Callable[[str, tuple], Any] | None) -> Iterator[None]:
    """Initialise the variables that are created inside the `with` from arrays instead of random values.

    Args:
        values: function (path of a variable, its shape) -> a float array of that shape, None for the initialiser, or a
            variable, which the layer then shares.
    """
    token = _values.set(values)
    try:
        yield
    finally:
        _values.reset(token)


class WithInitialValues:
    """Mixin: initialise variables from the arrays of `use_initial_values`."""

    def add_weight(self, shape=None, initializer=None, *args, name=None, **kwargs):
        values = _values.get()
        array = values(f"{self.path}/{name}", tuple(shape or ())) if values else None
        if isinstance(array, keras.Variable):
            track_variable(self, array)
            return array
        if array is not None:
            initializer = lambda shape, dtype=None: _copied(ops.cast(ops.convert_to_tensor(array), dtype))  # noqa: E731
        return super().add_weight(shape, initializer, *args, name=name, **kwargs)


def _copied(tensor):
    """Copy the tensor: on JAX and torch it may share the memory of an array. TensorFlow has copied it."""
    return tensor if keras.backend.backend() == "tensorflow" else ops.copy(tensor)
