"""Keras's `predict` with kernels that oneDNN packs, while they stay as they are."""

import collections
import threading
from collections.abc import Callable

import keras
import numpy as np

from keras_vit.layers.parted import parted_kernels, parted_layers, parted_products
from keras_vit.xla import traced_for_cpu

PATIENCE = 8  # calls with the same weights, from which on packing them, which takes a second, is expected to pay
KINDS = 2  # of images for which kernels are packed; each has its own copy
DTYPE = "bfloat16"  # float32 is multiplied faster as it lies


def packing(model: keras.Model, function: Callable) -> Callable:
    """Keras's predict function of a model, as a `Packing` where TensorFlow has the product for it."""
    if isinstance(function, Packing):  # of a thread that came first
        return function
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

    It looks at these weights in each call, and answers by those of now; packed, the same images are answered with other
    rounding. It holds the weights that it saw until a call finds others or `forget` is called, and as long what it
    packed of them: a copy in the type that the model computes in, and one more for each kind of images, `KINDS` at
    most, in batches of any size. Where it packed in vain it waits twice as long before it does again.

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

        images = keras.utils.unpack_x_y_sample_weight(data[0])[0]
        in_batches = all(isinstance(x, tf.Tensor | np.ndarray) and x.ndim for x in keras.tree.flatten(images))
        if not in_batches or not tf.executing_eagerly() or tf.config.functions_run_eagerly():
            return self._function(data)
        seen = self._seen_now()
        kind = keras.tree.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), images)
        seen.calls[str(kind)] += 1
        if seen.calls[str(kind)] >= self._patience:
            with self._lock:
                self._pack(seen, kind)
        answer = seen.answers.get(str(kind))
        return self._function(data) if answer is None else answer(images)

    def _seen_now(self):
        """What was seen of the weights of now."""
        seen = self._seen
        if seen is None or not seen.unchanged():
            if seen is not None and seen.answers:
                in_vain = sum(seen.calls.values()) < 2 * self._patience
                self._patience = 2 * self._patience if in_vain else PATIENCE
            seen = self._seen = _Seen(self._layers)
        return seen

    def _pack(self, seen, kind):
        """Let `seen` have a function of such images, unless it has one, or enough."""
        import tensorflow as tf

        from keras_vit.xla.onednn import held_product

        if str(kind) in seen.answers or len(seen.answers) == KINDS:
            return
        model, kernels = self._model, seen.kernels or parted_kernels(self._model, DTYPE)
        if not seen.unchanged():  # by another thread, while they were cut
            return
        seen.kernels = kernels

        def answer(images):
            with parted_products(model, kernels, held_product):
                return model.predict_step((images,))

        seen.answers[str(kind)] = tf.function(answer, [kind], autograph=False)


class _Seen:
    """The weights of layers as they were when this was made, and, by kind of images, calls and what answers by them."""

    def __init__(self, layers):
        self.calls, self.answers, self.kernels = collections.Counter(), {}, None
        self._layers, self._values = layers, _values_of(layers)
        self._places = _places_of(self._values)

    def unchanged(self) -> bool:
        """Whether the weights are the same."""
        # TensorFlow writes no numbers to memory that someone else holds, as this does: new ones lie elsewhere. (Those
        # of a variable that was once written in part always do: it is copied for whoever reads it.)
        return _places_of(_values_of(self._layers)) == self._places


def _values_of(layers):
    import tensorflow as tf

    return [tf.convert_to_tensor(weight.value) for layer in layers for weight in layer.weights]


def _places_of(tensors):
    """Where they lie in memory."""
    return [np.frombuffer(tensor, np.uint8).ctypes.data for tensor in tensors]
