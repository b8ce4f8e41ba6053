"""One call for what every Keras backend spells its own way: the gradient of a number."""

import keras
import numpy as np
from keras import ops


def gradients(function, tensors) -> list[np.ndarray]:
    """Gradient of `function(*tensors)`, a scalar tensor, with respect to each of the tensors, as float32 arrays.

    Args:
        function: of as many tensors; computed in inference, so that it has no side effects.
        tensors: float arrays or tensors.

    Raises:
        NotImplementedError: the Keras backend is none of tensorflow, jax and torch.
    """
    tensors = [ops.convert_to_tensor(tensor) for tensor in tensors]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(tensors)
            value = function(*tensors)
        found = tape.gradient(value, tensors, unconnected_gradients="zero")
    elif backend == "jax":
        import jax

        found = jax.grad(lambda given: function(*given))(tensors)
    elif backend == "torch":
        import torch

        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        found = torch.autograd.grad(function(*tensors), tensors, allow_unused=True, materialize_grads=True)
    else:
        raise NotImplementedError(f"gradients expected a backend of tensorflow, jax or torch, received {backend!r}.")
    return [ops.convert_to_numpy(ops.cast(gradient, "float32")) for gradient in found]
