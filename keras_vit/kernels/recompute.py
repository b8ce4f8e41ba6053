"""Insides that are computed again in the backward pass in place of being kept (arXiv 1604.06174)."""

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_vit.kernels import by_xla
from keras_vit.layers import current_uniform, drawing


def computed_again(function: Callable) -> Callable:
    """`function(x, *others)` of tensors, but that its insides are computed again for the gradient, not kept.

    As `tf.recompute_grad`, which copies all of its inputs, weights too, so that XLA does not merge the computations.
    """
    if by_xla():
        return tf.recompute_grad(function)

    @tf.custom_gradient
    def computed(x, *others):
        def gradients(gradient):
            (late,) = after(gradient, x)  # else TensorFlow would merge the two computations
            with tf.GradientTape() as tape:
                tape.watch([late, *others])
                again = function(late, *others)
            return tape.gradient(again, [late, *others], gradient, unconnected_gradients="zero")

        return function(x, *others), gradients

    return computed


def after(gradient, *tensors) -> list:
    """The tensors, to compute a gradient with: what uses these is computed no sooner than there is `gradient`."""
    with tf.control_dependencies([gradient]):
        return [tf.identity(tensor) for tensor in tensors]


def with_values(mapping) -> keras.StatelessScope:
    """A scope in which variables have other values, each in its own type, which the scope's constructor would cast.

    Args:
        mapping: (variable, value) pairs.
    """
    scope = keras.StatelessScope()
    for pair in mapping:
        scope.add_update(pair)
    return scope


class Recomputed(keras.layers.Layer):
    """A layer as it is, but that only its input is kept for the gradient.

    The second computation sees the first one's values and dropout seeds, so the gradient is the plain one.

    Args:
        layer: to compute twice.
        mapping: gives the (variable, value) pairs of the step under way; empty outside of one.
    """

    def __init__(self, layer: keras.layers.Layer, mapping: Callable):
        super().__init__(name=f"{layer.name}_recomputed", dtype="float32", autocast=False)
        self._computed = [layer]  # in a list: not a part whose weights are this layer's
        self._mapping = mapping

    def compute_output_spec(self, *args, **options):
        return self._computed[0].compute_output_spec(*args, **options)

    def call(self, x, *grid, training=False):
        layer = self._computed[0]
        known = {id(variable): (variable, value) for variable, value in self._mapping()}
        weights = layer.trainable_variables
        values = [known[id(v)][1] if id(v) in known else tf.convert_to_tensor(v.value) for v in weights]
        seeds = [known[id(v)] for v in layer.non_trainable_variables if id(v) in known]

        uniform = current_uniform()

        def computed(x, *values):
            with with_values([*zip(weights, values, strict=True), *seeds]), drawing(uniform):
                return layer(x, *grid, training=training)

        return computed_again(computed)(x, *values)
