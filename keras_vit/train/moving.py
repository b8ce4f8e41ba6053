"""The moving averages of batch norms in a training run.

A batch norm has the statistics of the examples that it sees at once: those of a micro-batch, of a core or of a replica.
The moving averages take one step per update, towards the mean of these statistics.
"""

import keras
import tensorflow as tf

from keras_vit.private import layers_of


def moving_averages(layer: keras.layers.Layer) -> list:
    """Return the moving averages of the batch norms in a layer or model, in order."""
    norms = [inner for inner in layers_of(layer) if isinstance(inner, keras.layers.BatchNormalization)]
    return [variable for norm in norms for variable in (norm.moving_mean, norm.moving_variance)]


def frozen_norms(model: keras.Model, trained: list) -> set[str]:
    """Return the names of the layers with batch norms that have no trained variable."""
    known = {id(variable) for variable in trained}
    return {
        layer.name
        for layer in model.layers
        if moving_averages(layer) and not any(id(variable) in known for variable in layer.variables)
    }


class InInference(keras.layers.Layer):
    """Calls a layer as in inference, so that its batch norms use and keep their moving averages: a frozen layer.

    Args:
        layer: the layer.
    """

    def __init__(self, layer: keras.layers.Layer):
        super().__init__(name=f"{layer.name}_frozen", dtype="float32", autocast=False)
        self._computed = [layer]  # in a list, so that Keras does not track its weights here

    def compute_output_spec(self, *args):
        return self._computed[0].compute_output_spec(*args)

    def call(self, *args):
        return self._computed[0](*args, training=False)


def mean_of(parts: list[list]) -> list:
    """Return the means of lists of tensors, one list per part of a batch."""
    return [tf.add_n(values) / len(parts) for values in zip(*parts, strict=True)]


def assign(variables: list, values: list, strategy) -> None:
    """Assign the values of the replicas, which are equal, to variables."""
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable.value, lambda v, new: v.assign(new), args=(value,))
