"""Count the parameters, multiply-adds and activations of each layer from a model's shapes."""

import math
from dataclasses import dataclass

import keras

from keras_vit.composed import flattened
from keras_vit.cost.layer_rules import rule_of
from keras_vit.cost.weightless import build_weightless
from keras_vit.models.variants import AnyVariant, ConvNet
from keras_vit.private import calls_in


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer for one image.

    Args:
        name: name of the layer.
        kind: name of its class.
        output_shape: shape of the output without the batch axis.
        parameters: number of weights, without the moving averages of batch norms.
        macs: multiply-adds of its matmuls and convolutions in the forward pass. A convolution's taps outside the image
            are not counted, as in XLA's cost analysis.
        activations: number of values saved for the backward pass: the inputs of matmuls, norms and activation
            functions. Dropout masks are not counted.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    macs: int
    activations: int

    @property
    def flops(self) -> int:
        """Floating-point operations in the forward pass, two per multiply-add."""
        return 2 * self.macs


@dataclass(frozen=True)
class Cost:
    """The cost of a model for one image.

    Args:
        name: name of the model.
        input_shape: (height, width, channels).
        layers: costs of its layers, in order.
    """

    name: str
    input_shape: tuple[int, int, int]
    layers: tuple[LayerCost, ...]

    @property
    def parameters(self) -> int:
        """Number of weights of all layers, without the moving averages of batch norms."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def macs(self) -> int:
        """Multiply-adds of the forward pass with the classifier."""
        return sum(layer.macs for layer in self.layers)

    @property
    def flops(self) -> int:
        """Floating-point operations of the forward pass, two per multiply-add."""
        return 2 * self.macs

    @property
    def activations(self) -> int:
        """Number of values saved for the backward pass."""
        return sum(layer.activations for layer in self.layers)

    @property
    def trunk_macs(self) -> int:
        """Multiply-adds of the forward pass without the classifier, as in the ViT paper's Table 6."""
        return sum(layer.macs for layer in self.layers if layer.name not in ("head", "pre_logits"))


def count(model: keras.Model) -> Cost:
    """Count the cost of a model of this package, with or without weights.

    Raises:
        ValueError: the image size is free, or a layer has no rule in `layer_rules.py`.
    """
    model = flattened(model)
    shape = tuple(model.inputs[0].shape[1:])
    if len(model.inputs) != 1 or len(shape) != 3 or None in shape:
        raise ValueError(f"model expected one input of known size (height, width, channels), received {shape}.")
    calls = {}  # a shared layer has several calls
    for call in calls_in(model):
        calls.setdefault(id(call.operation), []).append(call)
    return Cost(model.name, shape, tuple(_layer_cost(layer, calls[id(layer)]) for layer in model.layers))


def macs_of_variant(
    row: AnyVariant,
    input_shape: tuple[int, int, int] | None = None,
    patch_size: int | tuple[int, int] | None = None,
    pooling: str | None = None,
) -> int:
    """Return the multiply-adds of one image in the forward pass without the classifier.

    Args:
        row: the row of a model.
        input_shape: (height, width, channels); by default the row's image size and three channels.
        patch_size: replaces the row's patch size, an int or (height, width).
        pooling: `token`, `gap` or `map`; the builder's default if None. Ignored for a convolutional network.
    """
    height, width, channels = input_shape or (row.image_size, row.image_size, 3)
    options = {} if isinstance(row, ConvNet) else {"patch_size": patch_size, "pooling": pooling}
    options = {name: value for name, value in options.items() if value is not None}
    return count(build_weightless(row, (height, width), channels, include_top=False, **options)).trunk_macs


def _layer_cost(layer, calls) -> LayerCost:
    """Add the costs of a layer's calls."""
    rule, macs, saved = rule_of(layer), 0, 0
    for call in calls:
        inputs = [tuple(tensor.shape[1:]) for tensor in call.input_tensors]
        output = tuple(call.output_tensors[0].shape[1:])
        call_macs, call_saved = rule(layer, inputs, output)
        macs, saved = macs + call_macs, saved + call_saved
    weights = (variable for variable in layer.weights if not variable.name.startswith("moving_"))
    parameters = sum(math.prod(variable.shape) for variable in weights)
    return LayerCost(layer.name, type(layer).__name__, output, parameters, macs, saved)
