"""How much arithmetic and memory a model is, layer by layer, from its shapes alone (Table 6 of arXiv 2010.11929)."""

import math
from dataclasses import dataclass

import keras

from keras_vit.composed import flattened
from keras_vit.cost.layer_rules import rule_of
from keras_vit.cost.weightless import build_weightless
from keras_vit.models.variants import BiTVariant, Variant
from keras_vit.private import calls_in


@dataclass(frozen=True)
class LayerCost:
    """What one layer takes for one image.

    Args:
        name: of the layer.
        kind: its class.
        output_shape: without the batch.
        parameters: numbers it learns or keeps, not those of random generators.
        macs: multiply-adds of its matrix products and convolutions, forward. A convolution's taps outside the image
            are not counted, as XLA does not count them.
        activations: numbers that the backward pass needs again: each that enters a product, a norm or a
            non-linearity, once, with no dropout. With dropout there is one more a number behind it.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    macs: int
    activations: int

    @property
    def flops(self) -> int:
        """Floating-point operations, forward: two a multiply-add, as the paper counts."""
        return 2 * self.macs


@dataclass(frozen=True)
class Cost:
    """What a model takes for one image, in the order of its layers.

    Args:
        name: of the model.
        input_shape: (height, width, channels).
        layers: all that do something.
    """

    name: str
    input_shape: tuple[int, int, int]
    layers: tuple[LayerCost, ...]

    @property
    def parameters(self) -> int:
        """Of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def macs(self) -> int:
        """Multiply-adds forward, the classifier's included."""
        return sum(layer.macs for layer in self.layers)

    @property
    def flops(self) -> int:
        """Floating-point operations forward, two a multiply-add."""
        return 2 * self.macs

    @property
    def activations(self) -> int:
        """Numbers kept for the backward pass."""
        return sum(layer.activations for layer in self.layers)

    @property
    def trunk_macs(self) -> int:
        """Multiply-adds without the classifier, which the paper's Table 6 leaves out."""
        return sum(layer.macs for layer in self.layers if layer.name not in ("head", "pre_logits"))


def count(model: keras.Model) -> Cost:
    """Count a model of this package, built or `keras_vit.cost.weightless`.

    Raises:
        ValueError: a side of its images is free, or it has a layer whose arithmetic is not known here.
    """
    model = flattened(model)
    shape = tuple(model.inputs[0].shape[1:])
    if len(model.inputs) != 1 or len(shape) != 3 or None in shape:
        raise ValueError(f"model expected one input of known size (height, width, channels), received {shape}.")
    calls = {}  # a shared layer has several
    for call in calls_in(model):
        calls.setdefault(id(call.operation), []).append(call)
    return Cost(model.name, shape, tuple(_layer_cost(layer, calls[id(layer)]) for layer in model.layers))


def multiplications(
    row: Variant | BiTVariant,
    input_shape: tuple[int, int, int] | None = None,
    patch_size: int | tuple[int, int] | None = None,
    pooling: str | None = None,
) -> int:
    """Multiply-adds of one image, forward, without the classifier: `trunk_macs` of the row's model.

    Args:
        row: of the table, or your own.
        input_shape: (height, width, channels); the row's, in colour, where None.
        patch_size: pixels of a patch in place of the row's, one int or (height, width).
        pooling: `token`, `gap` or `map`; the builder's default where None. Without meaning for a BiT.
    """
    height, width, channels = input_shape or (row.image_size, row.image_size, 3)
    options = {} if isinstance(row, BiTVariant) else {"patch_size": patch_size, "pooling": pooling}
    options = {name: value for name, value in options.items() if value is not None}
    return count(build_weightless(row, (height, width), channels, include_top=False, **options)).trunk_macs


def _layer_cost(layer, calls) -> LayerCost:
    """The sum of a layer's calls."""
    rule, macs, kept = rule_of(layer), 0, 0
    for call in calls:
        inputs = [tuple(tensor.shape[1:]) for tensor in call.input_tensors]
        output = tuple(call.output_tensors[0].shape[1:])
        found = rule(layer, inputs, output)
        macs, kept = macs + found[0], kept + found[1]
    parameters = sum(math.prod(variable.shape) for variable in layer.weights)
    return LayerCost(layer.name, type(layer).__name__, output, parameters, macs, kept)
