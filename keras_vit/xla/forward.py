"""A model's forward pass, compiled for the machine that it runs on.

B batch, H W C image.
"""

import contextlib
from collections.abc import Callable
from functools import partial

import keras
import numpy as np

from keras_vit.layers import GroupNorm, LayerNorm
from keras_vit.layers.base import taking_forms
from keras_vit.layers.layernorm import usual_norms
from keras_vit.layers.parted import biased_product, parted_kernels, parted_products
from keras_vit.layers.stdconv import kernel_forms, standardized_kernels
from keras_vit.private import layers_of
from keras_vit.xla import by_xla, traced_for_cpu

MOST_CONSTANTS = 0.7e9  # bytes, of which TensorFlow makes up to fifteen times as many


def compiled(model: keras.Model, whole: bool = False, frozen: bool = False, parts: int = 1) -> Callable:
    """The fastest forward pass of a model here: a function images (B, H, W, C) -> what the model answers.

    On TensorFlow and CPUs layer norms are oneDNN's, where TensorFlow has it, other norms XLA's loops, and kernels of
    weight-standardised convolutions (BiT, the hybrids) are standardised once, now, into a second copy: compile again
    when they have changed. All other weights are read at each call, unless they are `frozen`. On GPUs and TPUs, and on
    JAX everywhere, XLA compiles all of it (measured on JAX alone). It is compiled anew for each shape of images, within
    the first call of it: keep to one batch size. Exports, which must run elsewhere, and functions that XLA compiles are
    made of the model itself.

    Args:
        model: a model of this package, or one that is made of its layers.
        whole: have XLA compile all of it on CPUs, too: faster where a call is short (one image in a narrow model, in
            float32), slower elsewhere.
        frozen: keep the weights as they are now. On TensorFlow oneDNN brings kernels into its own order once, in the
            first call of each shape of images, and multiplies faster in bfloat16 on CPUs with AMX; float32 weights of a
            mixed policy are cast once. This takes a copy more of the weights, in bfloat16 one more for each shape and
            part, and those of then are kept. In float32 nothing is gained but on convolutions.
        parts: of a batch, nearly equal, which TensorFlow computes side by side on a CPU: where one leaves cores idle,
            another has them. As many as there are cores, at most; what XLA compiles is never cut.

    Raises:
        ValueError: Keras runs on another backend than TensorFlow and JAX, both `whole` and `frozen` are asked for,
            `parts` is not positive, or weights outside the blocks, which TensorFlow is to keep as constants, are larger
            than 0.7 GB.
    """
    if parts < 1:
        raise ValueError(f"parts expected a positive number, received {parts}.")
    if whole and frozen:
        raise ValueError("frozen expected False beside whole=True, received True.")
    if keras.backend.backend() == "jax":
        return _on_jax(model, frozen)
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"compiled expected Keras on TensorFlow or JAX, received KERAS_BACKEND={keras.backend.backend()}."
        )
    import tensorflow as tf

    call = _of_held_weights(model) if frozen else lambda images: model(images, training=False)
    if whole or by_xla():
        return tf.function(call, jit_compile=True, autograph=False)
    call = tf.function(_by_loops(model, frozen)(call), autograph=False)
    return call if parts == 1 else _side_by_side(call, parts)


def _side_by_side(call, parts):
    """A function of a batch that calls another one with each part of it, and puts the answers together again."""
    import tensorflow as tf

    @partial(tf.function, autograph=False)
    def answer(images):
        count = images.shape[0]
        if not count:  # unknown, or none
            return call(images)
        sizes = [len(rows) for rows in np.array_split(range(count), min(parts, count))]
        answers = [call(part) for part in tf.split(images, sizes)]
        return tf.nest.map_structure(lambda *rows: tf.concat(rows, 0), *answers)

    return answer


def _of_held_weights(model):
    """The model's forward pass with its weights as they are now: kernels of products as inputs of the graph, which
    oneDNN is told to keep, the others as constants in it."""
    import tensorflow as tf

    from keras_vit.xla.onednn import held_product

    kernels = parted_kernels(model)
    held = {id(weight) for layer in kernels for weight in layer.weights}
    # A tensor is an input of the graph, NumPy's array a constant in it.
    values = [(v, tf.convert_to_tensor(v.value) if id(v) in held else v.numpy()) for v in model.variables]
    size = sum(value.nbytes for _, value in values if isinstance(value, np.ndarray))
    if size > MOST_CONSTANTS:
        raise ValueError(f"frozen expected at most {MOST_CONSTANTS / 1e9} GB of weights outside the blocks, received "
                         f"{size / 1e9:.2f} GB.")  # fmt: skip
    product = biased_product if by_xla() else held_product

    def call(images):
        state = [(variable, tf.convert_to_tensor(value)) for variable, value in values]
        with keras.StatelessScope(state_mapping=state), parted_products(model, kernels, product):
            return model(images, training=False)

    return call


def _on_jax(model, frozen):
    import jax

    variables = model.variables

    @jax.jit
    def call(values, images):
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return model(images, training=False)

    def current():
        return [variable.value for variable in variables]

    # Copies: Keras's training and evaluation give the variables' own memory away.
    kept = [value.copy() for value in current()] if frozen else None

    def answer(images):
        return call(kept or current(), images)

    return answer


def _by_loops(model, frozen):
    """A decorator: while the function runs, which is while it is traced, norms and kernels have the forms for CPUs.

    Kernels standardised once are variables, or where `frozen` NumPy's arrays, of which tracing makes constants.
    """
    from keras_vit.xla.norms import group_norm

    layers = layers_of(model)
    forms = [(layer, group_norm) for layer in layers if isinstance(layer, GroupNorm)]
    forms += [_layer_normed(layer) for layer in layers if isinstance(layer, LayerNorm)]
    kernels = standardized_kernels(model)
    kernels = [(layer, kernel.numpy()) for layer, kernel in kernels] if frozen else kernels
    return taking_forms([*forms, *kernel_forms(kernels)])


def onednn_norms(model: keras.Model):
    """A context for traces: layer norms are oneDNN's where TensorFlow computes on a CPU and has it; else it is empty.

    Those with a form that is not the layer's own keep it. XLA, which a model's `jit_compile` asks for, has no oneDNN.
    """
    if not traced_for_cpu(model):
        return contextlib.nullcontext()
    from keras_vit.xla.norms import onednn_has

    layers = [layer for layer in usual_norms(model) if onednn_has(layer.compute_dtype, layer.variable_dtype)]
    return taking_forms([_layer_normed(layer) for layer in layers])


def _layer_normed(layer):
    """A layer norm, and its form for the type that its weights are stored in."""
    from keras_vit.xla.norms import layer_normed

    return layer, partial(layer_normed, stored=layer.variable_dtype)
