"""What every layer here shares: a config that is exactly its constructor's arguments."""

import inspect

import keras


class Configured:
    """Mixin: `get_config()` reads each constructor argument back from the attribute of the same name.

    So a layer never writes its config by hand, and `from_config(get_config())` is the same layer. Subclasses are
    registered with Keras under `keras_vit>`, which is what lets `keras.saving.load_model` find them.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("keras_vit")(cls)

    def get_config(self):
        arguments = inspect.signature(type(self).__init__).parameters
        own = [name for name in arguments if name not in ("self", "kwargs")]
        return {**keras.layers.Layer.get_config(self), **{name: getattr(self, name) for name in own}}


class Layer(Configured, keras.layers.Layer):
    """Base of the layers of this package."""


def require_rank(layer: keras.layers.Layer, shape: tuple, rank: int, meaning: str) -> None:
    """Raise a ValueError naming `layer` unless its input `shape` has `rank` axes."""
    if len(shape) != rank:
        raise ValueError(f"{layer.name} expected its input to be {meaning}, received shape {tuple(shape)}.")


def require_rate(name: str, rate: float) -> float:
    """Return `rate` if it lies in [0, 1), else raise a ValueError naming it."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} expected a rate in [0, 1), received {rate!r}.")
    return rate
