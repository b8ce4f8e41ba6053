"""Keras's `predict` with kernels that oneDNN packs, while they stay as they are."""

import threading
from collections.abc import Callable

import keras
import numpy as np

from keras_vit.layers.parted import parted_kernels, parted_layers, parted_products
from keras_vit.xla import traced_for_cpu

PATIENCE = 8  # calls with the same weights, from which on packing them, which takes a second, is expected to pay
DTYPE = "bfloat16"  # float32 is multiplied faster as it lies


def packing(model: keras.Model, function: Callable) -> Callable:
    """Keras's predict function of a model, as a `Packing` where TensorFlow has the product for it."""
    layers = [layer for layer, *_ in parted_layers(model, DTYPE)]
    # In a graph of several steps each would have its kernels packed for itself.
    if not layers or not traced_for_cpu(model) or model.steps_per_execution > 1:
        return function
    import tensorflow as tf

    from keras_vit.xla.onednn import has_held_products

    replicated = any(isinstance(weight.value, tf.distribute.DistributedValues) for weight in model.weights)
    return function if replicated or not has_held_products() else Packing(model, layers, function)


class Packing:
    """A predict function, which packs the kernels of a model's blocks once their weights have stayed as they are.

    It looks at these weights in each call, and answers by those of now. It holds the weights that it saw until a call
    finds others or `forget` is called, and as long what it packed of them: two copies in the type that the model
    computes in. Each time it packed in vain it waits twice as long before it does again.

    Args:
        model: that is told its kernels.
        layers: its attention and MLPs that are to be packed.
        function: Keras's own, which answers until then.
    """

    def __init__(self, model: keras.Model, layers: list, function: Callable):
        self._model, self._layers, self._function = model, layers, function
        self._patience, self._lock = PATIENCE, threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Let go of all weights and of what was packed of them."""
        self._seen = None

    def __call__(self, data):
        import tensorflow as tf

        numbers = all(isinstance(x, tf.Tensor | np.ndarray) for x in keras.tree.flatten(data))
        if not numbers or not tf.executing_eagerly() or tf.config.functions_run_eagerly():
            return self._function(data)
        seen = self._seen
        if seen is None or not seen.are_these():
            self._patience *= 2 if seen is not None and seen.answers else 1
            seen = self._seen = _Seen(self._layers)
        seen.calls += 1
        if seen.calls < self._patience:
            return self._function(data)
        # One for batches of any size, where one after the other would be packed apart.
        kind = keras.tree.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), data)
        with self._lock:
            if str(kind) not in seen.answers:
                seen.answers[str(kind)] = self._packed(kind)
        return seen.answers[str(kind)](data)

    def _packed(self, kind):
        """A function of such data, with the kernels of now."""
        import tensorflow as tf

        from keras_vit.xla.onednn import held_product

        model, kernels = self._model, parted_kernels(self._model, DTYPE)

        def answer(data):
            with parted_products(model, kernels, held_product):
                return model.predict_step(data[0])

        return tf.function(answer, [kind], autograph=False)


class _Seen:
    """The weights of layers as they were when this was made, how often they were found so, and what answers by them.

    Each of these functions is of one kind of data.
    """

    def __init__(self, layers):
        self.calls, self.answers = 0, {}
        self._layers, self._values = layers, _values_of(layers)
        self._places = _places_of(self._values)

    def are_these(self) -> bool:
        """Whether the weights have not been changed since."""
        # TensorFlow writes no numbers to memory that someone else holds, as this does: new ones lie elsewhere. (Those
        # of a variable that was once written in part always do: it is copied for whoever reads it.)
        return _places_of(_values_of(self._layers)) == self._places


def _values_of(layers):
    import tensorflow as tf

    return [tf.convert_to_tensor(weight.value) for layer in layers for weight in layer.weights]


def _places_of(tensors):
    """Where they lie in memory."""
    return [np.frombuffer(tensor, np.uint8).ctypes.data for tensor in tensors]
