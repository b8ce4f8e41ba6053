"""Keras's `predict` with kernels that oneDNN packs, while they stay as they are."""

from collections.abc import Callable

import keras
import numpy as np

from keras_vit.layers.parted import parted_kernels, parted_layers, parted_products
from keras_vit.xla import traced_for_cpu

PATIENCE = 8  # calls with the same weights, from which on packing them, which takes a second, is expected to pay


def predict_function(model: keras.Model, make: Callable) -> Callable:
    """What `make` makes, or a `Packing` where TensorFlow has the product for it and some block computes in bfloat16."""
    layers = [layer for layer, *_ in parted_layers(model)]
    if not traced_for_cpu(model) or all(layer.compute_dtype != "bfloat16" for layer in layers):
        return make()
    import tensorflow as tf

    from keras_vit.xla.onednn import has_held_products

    weights = [weight for layer in layers for weight in layer.weights]
    replicated = any(isinstance(weight.value, tf.distribute.DistributedValues) for weight in weights)
    return make() if replicated or not has_held_products() else Packing(model, weights, make)


class Packing:
    """A model's predict function, which packs the kernels of its blocks once their weights have stayed as they are.

    It looks at the weights in each call, and answers by those of now. What is packed, two copies of them in the type
    that the model computes in, and the weights that these were made of, are kept until a call finds other weights or
    `forget` is called.

    Args:
        model: that is told its kernels.
        weights: of its blocks.
        make: makes a predict function, which is traced when it is first called.
    """

    def __init__(self, model: keras.Model, weights: list, make: Callable):
        self._model, self._weights, self._make, self._plain = model, weights, make, make()
        self.forget()

    def forget(self) -> None:
        """Let go of all that was packed: training needs its memory."""
        self._seen = None

    def __call__(self, data):
        from keras_vit.xla.onednn import held_product

        seen = self._seen
        if seen is None or not seen.are_these():
            seen = self._seen = _Seen(self._weights)
        seen.calls += 1
        if seen.calls < PATIENCE:
            return self._plain(data)
        if seen.packed is None:
            seen.kernels, seen.packed = parted_kernels(self._model), self._make()
        with parted_products(self._model, seen.kernels, held_product):
            return seen.packed(data)


class _Seen:
    """Weights as they were when this was made, and how often they were found so."""

    def __init__(self, weights):
        self.calls, self.kernels, self.packed = 0, None, None
        self._weights, self._values = weights, _values_of(weights)
        self._places = _places_of(self._values)

    def are_these(self) -> bool:
        """Whether the weights have not been changed since."""
        # TensorFlow does not write to memory that someone else holds, as this does: new numbers lie elsewhere.
        return _places_of(_values_of(self._weights)) == self._places


def _values_of(weights):
    import tensorflow as tf

    return [tf.convert_to_tensor(weight.value) for weight in weights]


def _places_of(tensors):
    """Where they lie in memory."""
    return [np.frombuffer(tensor, np.uint8).ctypes.data for tensor in tensors]
