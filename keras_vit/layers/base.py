"""Base classes of the layers. A layer's config equals the arguments of its constructor."""

import inspect
import numbers
from typing import Any

import keras
from keras import ops

from keras_vit.layers.dense import AdaptableDense
from keras_vit.layers.initial_values import WithInitialValues
from keras_vit.layers.override import override_of
from keras_vit.private import parts_of


class Biased(WithInitialValues):
    """Mixin of layers that add a bias."""

    def add_bias(self, x, training):
        """Add the bias: (..., F) -> (..., F)."""
        return (override_of(self, "add_bias", training) or ops.add)(x, self.bias)


class Dense(Biased, AdaptableDense):
    """Dense layer inside the layers of this package."""

    def call(self, inputs, training=False):
        x = self.project(inputs) if training or override_of(self, "project") else ops.matmul(inputs, self.kernel)
        if self.use_bias:
            x = self.add_bias(x, training)
        return x if self.activation is None else self.activation(x)


def is_plain_dense(dense: keras.layers.Layer) -> bool:
    """Return whether `dense` is exactly our `Dense` and is not quantized."""
    return type(dense) is Dense and dense.quantization_mode is None


class Configured(WithInitialValues):
    """Mixin: `get_config()` reads each constructor argument from the attribute of the same name.

    `from_config(get_config())` returns the same layer. Subclasses are registered with Keras under `keras_vit>`, so that
    `keras.saving.load_model` finds them.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("keras_vit")(cls)

    def get_config(self):
        arguments = inspect.signature(type(self).__init__).parameters
        values = {name: getattr(self, name) for name in arguments if name not in ("self", "kwargs")}
        return {**keras.layers.Layer.get_config(self), **values, **self.changes()}

    def changes(self) -> dict:
        """Return the constructor arguments that were changed after the layer was built."""
        return {}

    def get_build_config(self):
        """Add a hint that Keras prints if it cannot find the class of a file."""
        config = super().get_build_config()
        return config and {**config, "needs": "import keras_vit"}


class Layer(Configured, keras.layers.Layer):
    """Base of the layers of this package.

    Args:
        parts: name of an inner layer -> constructor arguments that were changed after the layer was built.
            `get_config()` has an entry for each inner layer that was frozen, quantized, given another dtype, or given
            LoRA adapters.
    """

    def __init__(self, **kwargs: Any):
        parts = kwargs.pop("parts", None)
        super().__init__(**kwargs)
        self._changed_parts = parts or {}

    def make_part(self, kind: type, *args, name: str, **options) -> keras.layers.Layer:
        """Create an inner layer with this layer's dtype and `trainable`, and with the changes of the config."""
        common = {"dtype": self.dtype_policy, "trainable": self.trainable}
        return kind(*args, name=name, **{**common, **options, **self._changed_parts.get(name, {})})

    def changes(self):
        parts = {part.name: self._changes_of(part) for part in parts_of(self) if part.weights}
        parts = {name: changed for name, changed in parts.items() if changed} if self.built else self._changed_parts
        return {"parts": parts} if parts else {}

    def _changes_of(self, part):
        changed = part.changes() if isinstance(part, Configured | AdaptableDense) else {}
        if part.trainable != self.trainable:
            changed["trainable"] = part.trainable
        if part.dtype_policy != self.dtype_policy:
            changed["dtype"] = keras.saving.serialize_keras_object(part.dtype_policy)
        return changed


def require_rank(layer: keras.layers.Layer, shape: tuple, rank: int, meaning: str) -> None:
    """Raise a ValueError naming `layer` unless its input `shape` has `rank` axes."""
    if len(shape) != rank:
        raise ValueError(f"{layer.name} expected its input to be {meaning}, received shape {tuple(shape)}.")


def require_rate(name: str, rate: float) -> float:
    """Return `rate` if it lies in [0, 1), else raise a ValueError naming it."""
    if not isinstance(rate, numbers.Real) or not 0 <= rate < 1:
        raise ValueError(f"{name} expected a rate in [0, 1), received {rate!r}.")
    return rate


def as_pair(size: int | tuple[int, int], name: str = "patch_size") -> tuple[int, int]:
    """Return (height, width) of a size given as one int or as two."""
    pair = (size, size) if isinstance(size, int) else size
    valid = isinstance(pair, tuple | list) and len(pair) == 2
    if not valid or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ValueError(f"{name} expected a positive int or (height, width), received {size!r}.")
    height, width = pair
    return height, width


def flatten_tokens(tokens):
    """Flatten tokens for a matrix product: (B, N, D) -> (B * N, D)."""
    return ops.reshape(tokens, (-1, tokens.shape[-1]))


def unflatten_tokens(flat, tokens):
    """Undo `flatten_tokens`, with the N of `tokens`: (B * N, F) -> (B, N, F)."""
    return ops.reshape(flat, (-1, ops.shape(tokens)[1], flat.shape[-1]))
