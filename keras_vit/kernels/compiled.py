"""A model's forward pass, compiled for the machine that it runs on.

B batch, H W C image.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_vit.kernels import by_xla
from keras_vit.kernels.dispatch import compiled_overrides
from keras_vit.kernels.snapshot import Snapshot, same_variables
from keras_vit.kernels.split_matmuls import biased_matmul, split_overrides, split_weights
from keras_vit.layers.override import overriding

MAX_CONSTANTS = 0.7e9  # bytes; TensorFlow's graph rewriting copies constants up to fifteen times


def compiled(model: keras.Model, whole: bool = False, frozen: bool = False, parts: int = 1) -> "Compiled":
    """Compile the forward pass of a model for the machine that it runs on.

    On TensorFlow and CPUs layer norms use oneDNN where TensorFlow has it, other norms use loops compiled by XLA, and
    each weight-standardised kernel (BiT, the hybrids) is standardised by one operation. On GPUs and TPUs, and always
    on JAX, XLA compiles the whole forward pass (measured on JAX only). The function reads the current weights at each
    call, unless they are `frozen`. It is compiled again for each new shape of images: keep to one batch size. Exports
    do not use it, because they must run elsewhere.

    Args:
        model: a model of this package, or one that is made of its layers.
        whole: let XLA compile the whole forward pass on CPUs, too. This is faster where a call is short (one image in
            a narrow model, in float32), and slower elsewhere.
        frozen: use a snapshot of the weights. oneDNN then prepacks kernels in the first call for each shape of images
            and multiplies faster in bfloat16 on CPUs with AMX. Kernels are standardised, and float32 weights of a mixed
            policy are cast, once. The snapshot takes one more copy of the weights, and in bfloat16 one more for each
            shape and part. In float32 only convolutions gain. Every call compares the snapshot with the model, and
            raises a ValueError once the weights have changed; `Snapshot` says what it notices and what that costs. Call
            `refresh()` on the returned function to take a new snapshot. The function cannot be called inside a
            traced function, which would not compare again.
        parts: chunks of a batch, of nearly equal size, that TensorFlow computes in parallel on a CPU. Use at most as
            many as there are cores. `whole` and GPUs ignore it.

    Returns:
        A `Compiled` function: images (B, H, W, C) -> the model's output.

    Raises:
        ValueError: Keras runs on another backend than TensorFlow and JAX, both `whole` and `frozen` are True,
            `parts` is not positive, or the weights outside the blocks, which become constants, exceed 0.7 GB.
    """
    if parts < 1:
        raise ValueError(f"parts expected a positive number, received {parts}.")
    if whole and frozen:
        raise ValueError("frozen expected False with whole=True, received True.")
    if keras.backend.backend() not in ("tensorflow", "jax"):
        raise ValueError(
            f"compiled expected Keras on TensorFlow or JAX, received KERAS_BACKEND={keras.backend.backend()}."
        )
    on_backend = _on_jax if keras.backend.backend() == "jax" else partial(_on_tensorflow, whole=whole, parts=parts)
    return Compiled(model, on_backend, frozen)


class Compiled:
    """A compiled forward pass that never uses stale weights: images (B, H, W, C) -> the model's output.

    Attributes:
        function: the backend's compiled function. It does not compare frozen weights with the model's.
    """

    def __init__(self, model: keras.Model, compile_forward: Callable, frozen: bool):
        self._model, self._compile_forward, self._frozen = model, compile_forward, frozen
        self.refresh()

    def refresh(self) -> None:
        """Take the model's current weights; the next call compiles again."""
        self._weights = self._model.weights
        self._snapshot = Snapshot(self._model) if self._frozen else None
        self.function = self._compile_forward(self._model, self._snapshot)

    def __call__(self, images: Any) -> Any:
        """Return the model's output for images (B, H, W, C)."""
        if self._frozen:
            self._require_unchanged(images)
        elif not same_variables(self._weights, self._model.weights):  # after `enable_lora` or `quantize`
            self.refresh()
        return self.function(images)

    def _require_unchanged(self, images):
        if _is_traced(images):
            raise ValueError("frozen expected False for a function that is called inside a traced function, which "
                             "would not notice new weights, received True: call it eagerly.")  # fmt: skip
        if not self._snapshot.has_same_variables(self._model.weights):
            raise ValueError("frozen expected the same variables as when the model was compiled, received others "
                             "(enable_lora, quantize): call refresh() on the compiled function.")  # fmt: skip
        changed = self._snapshot.changed()
        if changed:
            others = f" and {len(changed) - 1} others" if changed[1:] else ""
            raise ValueError(f"frozen expected the same weights as when the model was compiled, received new values in "
                             f"{changed[0]}{others}: call refresh() on the compiled function to use them.")  # fmt: skip


def _is_traced(images) -> bool:
    """Return whether the caller is being traced into a function."""
    if keras.backend.backend() == "jax":
        import jax

        return isinstance(images, jax.core.Tracer)
    import tensorflow as tf

    return not tf.executing_eagerly() and not tf.config.functions_run_eagerly()


def _on_tensorflow(model, snapshot, whole, parts):
    import tensorflow as tf

    call = _frozen_forward(model, snapshot) if snapshot else lambda images: model(images, training=False)
    if whole or by_xla():
        return tf.function(call, jit_compile=True, autograph=False)
    overrides = compiled_overrides(model, frozen=snapshot is not None)
    call = tf.function(overriding(overrides, tf.compat.v1.get_default_graph)(call), autograph=False)
    return call if parts == 1 else _in_parallel(call, parts)


def _in_parallel(call, parts):
    """Return a function that calls `call` with each part of a batch and concatenates the outputs."""
    import tensorflow as tf

    @partial(tf.function, autograph=False)
    def parallel(images):
        count = images.shape[0]
        if not count:  # unknown or zero
            return call(images)
        sizes = [len(chunk) for chunk in np.array_split(range(count), min(parts, count))]
        outputs = [call(chunk) for chunk in tf.split(images, sizes)]
        return tf.nest.map_structure(lambda *chunks: tf.concat(chunks, 0), *outputs)

    return parallel


def _frozen_forward(model, snapshot):
    """Return the forward pass with the weights of a snapshot.

    Kernels of the blocks are inputs of the graph, which oneDNN prepacks. Other weights are constants.
    """
    import tensorflow as tf

    from keras_vit.kernels.onednn import prepacked_matmul

    kernels = split_weights(model)
    block_weights = {id(weight) for layer in kernels for weight in layer.weights}
    # Tensors become inputs of the graph, NumPy arrays constants.
    values = [(v, snapshot.value_of(v) if id(v) in block_weights else v.numpy()) for v in model.variables]
    size = sum(value.nbytes for _, value in values if isinstance(value, np.ndarray))
    if size > MAX_CONSTANTS:
        raise ValueError(f"frozen expected at most {MAX_CONSTANTS / 1e9} GB of weights outside the blocks, received "
                         f"{size / 1e9:.2f} GB.")  # fmt: skip
    matmul = biased_matmul if by_xla() else prepacked_matmul

    def call(images):
        graph = tf.compat.v1.get_default_graph()

        def current_graph():
            if tf.compat.v1.get_default_graph() is not graph:
                raise ValueError("frozen expected blocks that are called in the model's graph, received one inside "
                                 "another tf.function, which would cache the frozen weights.")  # fmt: skip
            return graph

        state = [(variable, tf.convert_to_tensor(value)) for variable, value in values]
        overrides = split_overrides(model, kernels, matmul)
        with keras.StatelessScope(state_mapping=state), overriding(overrides, current_graph):
            return model(images, training=False)

    return call


def _on_jax(model, snapshot):
    import jax

    variables = model.variables

    @jax.jit
    def call(values, images):
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return model(images, training=False)

    if snapshot is None:
        return lambda images: call([variable.value for variable in variables], images)
    saved = [(variable, snapshot.value_of(variable)) for variable in variables]
    values = [variable.value.copy() if value is None else value for variable, value in saved]  # seeds are not weights
    return lambda images: call(values, images)
