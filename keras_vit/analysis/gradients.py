"""Compute gradients on any Keras backend."""

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.arrays import to_float32


def gradients(function, tensors) -> list[np.ndarray]:
    """Return the gradient of `function(*tensors)`, a scalar, with respect to each tensor, as float32 arrays.

    Args:
        function: a function without side effects that takes the tensors as arguments.
        tensors: float arrays or tensors.

    Raises:
        NotImplementedError: the Keras backend is not tensorflow, jax or torch.
    """
    tensors = [ops.convert_to_tensor(tensor) for tensor in tensors]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(tensors)
            value = function(*tensors)
        results = tape.gradient(value, tensors, unconnected_gradients="zero")
    elif backend == "jax":
        import jax

        results = jax.grad(lambda arguments: function(*arguments))(tensors)
    elif backend == "torch":
        import torch

        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        results = torch.autograd.grad(function(*tensors), tensors, allow_unused=True, materialize_grads=True)
    else:
        raise NotImplementedError(f"gradients expected the backend tensorflow, jax or torch, received {backend!r}.")
    return [to_float32(gradient) for gradient in results]
