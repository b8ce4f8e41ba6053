"""Recompute activations in the backward pass instead of saving them (rematerialisation, arXiv 1604.06174)."""

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_vit.kernels import by_xla
from keras_vit.layers import current_uniform, use_random_values


def rematerialised(function: Callable) -> Callable:
    """Return `function(x, *others)` whose activations are recomputed for the gradient.

    On GPUs and TPUs this is `tf.recompute_grad`, which copies all inputs, so that XLA does not merge the computations.
    """
    if by_xla():
        return tf.recompute_grad(function)

    @tf.custom_gradient
    def forward(x, *others):
        def gradients(gradient):
            (late,) = after(gradient, x)  # otherwise TensorFlow merges the two computations
            with tf.GradientTape() as tape:
                tape.watch([late, *others])
                y = function(late, *others)
            return tape.gradient(y, [late, *others], gradient, unconnected_gradients="zero")

        return function(x, *others), gradients

    return forward


def after(gradient, *tensors) -> list:
    """Return the tensors, available only once `gradient` has been computed."""
    with tf.control_dependencies([gradient]):
        return [tf.identity(tensor) for tensor in tensors]


def with_values(mapping) -> keras.StatelessScope:
    """Return a scope in which variables have other values. The scope's own constructor would cast the values.

    Args:
        mapping: (variable, value) pairs.
    """
    scope = keras.StatelessScope()
    for pair in mapping:
        scope.add_update(pair)
    return scope


class Recomputed(keras.layers.Layer):
    """Computes a layer twice, so that only its input is saved for the gradient.

    Both computations use the same values and dropout seeds, so the gradient equals the gradient of the layer.

    Args:
        layer: the layer.
        mapping: function that returns the (variable, value) pairs of the current step, empty outside of a step.
    """

    def __init__(self, layer: keras.layers.Layer, mapping: Callable):
        super().__init__(name=f"{layer.name}_recomputed", dtype="float32", autocast=False)
        self._computed = [layer]  # in a list, so that Keras does not track its weights here
        self._mapping = mapping

    def compute_output_spec(self, *args, **options):
        return self._computed[0].compute_output_spec(*args, **options)

    def call(self, x, *grid, training=False):
        layer = self._computed[0]
        known = {id(variable): (variable, value) for variable, value in self._mapping()}
        # Kernels with LoRA adapters are not trainable, but TensorFlow allows no other variable inside a recomputation.
        frozen = [v for v in layer.non_trainable_variables if "seed_generator" not in v.path]
        weights = [*layer.trainable_variables, *frozen]
        values = [known[id(v)][1] if id(v) in known else tf.convert_to_tensor(v.value) for v in weights]
        seeds = [known[id(v)] for v in layer.non_trainable_variables if id(v) in known]

        uniform = current_uniform()

        def computed(x, *values):
            with with_values([*zip(weights, values, strict=True), *seeds]), use_random_values(uniform):
                return layer(x, *grid, training=training)

        return rematerialised(computed)(x, *values)
