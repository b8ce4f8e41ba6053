"""Take a snapshot of a model's weights, and detect later changes."""

import math

import keras
import numpy as np

from keras_vit.kernels import by_xla


class Snapshot:
    """The values of a model's weights at one moment, and a cheap test whether the current ones differ.

    The test notices every write through Keras or its backend (`assign`, `set_weights`, an optimizer). On TensorFlow a
    NumPy array or a torch tensor can share a weight's memory (`__array__`, dlpack) and write to it without TensorFlow.
    Of such writes the test notices those that change a whole row or a whole column of a weight, or any value of a
    one-dimensional weight; a write to fewer values can pass unnoticed. JAX arrays are immutable.

    The test reads a small part of the values. On a GPU it reads all of them.

    Args:
        model: the model. TensorFlow shares the memory with the model until the weights change; JAX copies it.
    """

    def __init__(self, model: keras.Model):
        self._weights = model.weights
        backend = _TensorFlowValues if keras.backend.backend() == "tensorflow" else _JaxValues
        self._values = backend(self._weights)

    def value_of(self, variable):
        """Return the saved value of a variable, or None if the variable is not one of the model's weights."""
        pairs = zip(self._weights, self._values.saved, strict=True)
        return next((value for weight, value in pairs if weight is variable), None)

    def has_same_variables(self, weights: list) -> bool:
        """Return whether `weights` are the same variables; `enable_lora` and `quantize` replace some."""
        return same_variables(self._weights, weights)

    def changed(self) -> list[str]:
        """Return the paths of the weights whose values have changed."""
        return [self._weights[i].path for i in self._values.changed()]


def same_variables(some: list, others: list) -> bool:
    """Return whether two lists hold the same variables."""
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


class _TensorFlowValues:
    """Detect new values by their address: TensorFlow never writes to memory that a tensor still refers to."""

    def __init__(self, weights):
        import tensorflow as tf

        # One traced function reads all variables much faster than one eager call per variable.
        self._read = tf.function(lambda: [tf.convert_to_tensor(w.value) for w in weights], autograph=False)
        self.saved, self._compare_all = self._read(), by_xla()
        self._samples = [] if self._compare_all else [_sample(value) for value in self.saved]
        self._saved_samples = [sample.copy() for sample in self._samples]

    def changed(self):
        """Return the indices of the changed weights."""
        current = self._read()
        if self._compare_all:  # device memory has no address here, and comparing it is fast
            return [i for i, value in enumerate(current) if not _equal(self.saved[i], value)]
        changed = []
        for i, value in enumerate(current):
            if _address(value) == _address(self.saved[i]):
                continue
            # Assigned, perhaps with equal values. A variable that was once assigned in part is copied at every read.
            if _equal(self.saved[i], value):
                self.saved[i], self._samples[i] = value, _sample(value)
            else:
                changed.append(i)
        pairs = zip(self._samples, self._saved_samples, strict=True)
        return changed or [i for i, (sample, saved) in enumerate(pairs) if not np.array_equal(sample, saved)]


def _sample(tensor):
    """Return a view of some values of a tensor: at least one of each row and each column, and all of a vector.

    A row is what one step along the leading axes selects. The stride is no longer than a row and shares no factor
    with its length, so that the sample visits every column.
    """
    columns = tensor.shape[-1] if tensor.shape.rank else 1
    stride = max(1, min(math.prod(tensor.shape) // columns, columns))
    while math.gcd(stride, columns) != 1:
        stride -= 1
    return np.frombuffer(tensor, f"u{tensor.dtype.size}")[::stride]  # shares the memory; NaN compares as its bits


def _address(tensor):
    return np.frombuffer(tensor, np.uint8).__array_interface__["data"][0]


def _equal(one, other) -> bool:
    import tensorflow as tf

    return bool(tf.reduce_all((one == other) | ((one != one) & (other != other))))


class _JaxValues:
    """Detect new values by the identity of the array."""

    def __init__(self, weights):
        self._weights, self._seen = weights, [weight.value for weight in weights]
        # Copies, because Keras donates the variables' buffers to its training and evaluation steps.
        self.saved = [value.copy() for value in self._seen]

    def changed(self):
        """Return the indices of the changed weights."""
        import jax.numpy as jnp

        changed = []
        for i, weight in enumerate(self._weights):
            value = weight.value
            if value is self._seen[i]:
                continue
            if jnp.array_equal(self.saved[i], value, equal_nan=True):
                self._seen[i] = value
            else:
                changed.append(i)
        return changed
