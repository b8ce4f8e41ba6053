"""How much arithmetic and memory a model is, layer by layer, from its shapes alone (Table 6 of arXiv 2010.11929).

B batch, N tokens, D width, h heads, M MLP width, P patch, C channels, F filters.
"""

import math
from dataclasses import dataclass

import keras

from keras_vit import layers
from keras_vit.models.variants import BiTVariant, Variant
from keras_vit.models.weightless import build_weightless


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
    """Count a model of this package, built or `keras_vit.models.weightless`.

    Raises:
        ValueError: a side of its images is free, or it has a layer whose arithmetic is not known here.
    """
    shape = tuple(model.inputs[0].shape[1:])
    if len(model.inputs) != 1 or len(shape) != 3 or None in shape:
        raise ValueError(f"model expected one input of known size (height, width, channels), received {shape}.")
    return Cost(model.name, shape, tuple(_layer_cost(layer) for layer in model.layers))


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


def _layer_cost(layer) -> LayerCost:
    inputs = [tuple(tensor.shape[1:]) for tensor in keras.tree.flatten(layer.input)]
    output = tuple(keras.tree.flatten(layer.output)[0].shape[1:])
    rule = next((_RULES[kind] for kind in type(layer).__mro__ if kind in _RULES), None)
    if rule is None:
        if any(len(variable.shape) > 1 for variable in layer.weights):
            raise ValueError(f"model expected layers of this package, received {layer.name!r} of {type(layer)}.")
        rule = _nothing
    macs, kept = rule(layer, inputs, output)
    parameters = sum(math.prod(variable.shape) for variable in layer.weights)
    return LayerCost(layer.name, type(layer).__name__, output, parameters, macs, kept)


def _nothing(layer, inputs, output):
    return 0, 0


def _kept(layer, inputs, output):
    """No products; what it puts out enters the next layer's."""
    return 0, math.prod(output)


def _dense(layer, inputs, output):
    return math.prod(inputs[0][:-1]) * math.prod(layer.kernel.shape), math.prod(output)


def _embedding(layer, inputs, output):
    return math.prod(output[:2]) * math.prod(layer.kernel.shape), 0  # the position embedding is added first


def _block(layer, inputs, output):
    """Attention and MLP on N tokens; kept are both norms' results, q, k, v, weights, the sums, and the MLP's two."""
    return _attention_and_mlp(layer, *output, output[0], inputs[-1])


def _axial(layer, inputs, output):
    """A block along every row of the patch grid, then one along every column."""
    down, across = inputs[-1][:2]
    return tuple(map(sum, zip(*(_attention_and_mlp(layer.row, *output, side) for side in (across, down)), strict=True)))


def _attention_and_mlp(block, tokens, width, seen, grid=None):
    """Of N tokens that each see so many; relative positions are one more product with every offset."""
    offsets = 2 * seen - 1 if getattr(block, "relative_positions", False) else 0
    attention = tokens * 4 * width**2 + tokens * (2 * seen + offsets) * width
    macs, kept = _mlp(block.mlp, tokens, width, grid)
    return attention + macs, 8 * tokens * width + block.num_heads * tokens * seen + kept


def _mlp(mlp, tokens, width, grid):
    """Of an MLP block: its products, and M numbers a token in front of the activation and behind it."""
    macs, kept = 2 * tokens * width * mlp.mlp_dim, 2 * tokens * mlp.mlp_dim
    if mlp.kernel_size:
        macs += convolution(grid[:2], mlp.kernel_size, 1, 1, mlp.mlp_dim)[0]
        kept += 2 * (tokens - mlp.prefix_tokens) * mlp.mlp_dim
    return macs, kept


def _attention_pooling(layer, inputs, output):
    tokens, width = inputs[0]
    macs, kept = _mlp(layer.mlp, 1, width, None)
    macs += (2 * tokens + 2) * width**2 + 2 * tokens * width
    return macs, kept + 2 * tokens * width + layer.num_heads * tokens + 4 * width


def _std_conv(layer, inputs, output):
    height, width, channels = inputs[0]
    return convolution((height, width), layer.kernel_size, layer.strides, channels, layer.filters)[0], math.prod(output)


def _unit(layer, inputs, output):
    """Three convolutions and the shortcut's; each is between a norm and a ReLU, whose inputs are kept."""
    *before, channels = inputs[0]
    *after, wide = output
    narrow, here, there = layer.filters, math.prod(before), math.prod(after)
    macs = here * channels * narrow + there * narrow * wide
    macs += convolution(before, 3, layer.strides, narrow, narrow)[0]
    macs += there * channels * wide if layer.projects else 0
    kept = 2 * narrow * (here + there) + there * wide
    if isinstance(layer, layers.PreActivationUnit):
        return macs, kept + here * channels
    return macs, kept + there * wide * (1 + layer.projects)


def convolution(sides, kernel, stride: int, channels: int, filters: int) -> tuple[int, tuple[int, int]]:
    """Multiply-adds of a convolution padded to ceil(side / stride), and the sides of its output.

    TensorFlow's padding and the symmetric one leave equally many taps outside the image.

    Args:
        sides: (height, width) of the map.
        kernel: one int or (height, width).
        stride: in both directions.
        channels: of the map that each filter sees.
        filters: channels put out.
    """
    taps, after = 1, []
    for side, size in zip(sides, layers.as_pair(kernel), strict=True):
        outputs = -(-side // stride)
        before = max((outputs - 1) * stride + size - side, 0) // 2
        starts = (i * stride - before for i in range(outputs))
        taps *= sum(min(start + size, side) - max(start, 0) for start in starts)
        after.append(outputs)
    return taps * channels * filters, tuple(after)


_RULES = {
    keras.layers.InputLayer: _kept,
    keras.layers.Dense: _dense,
    keras.layers.ReLU: _kept,
    keras.layers.GlobalAveragePooling2D: _kept,
    layers.PatchEmbedding: _embedding,
    layers.ClassToken: _nothing,
    layers.PositionEmbedding: _kept,
    layers.SinCosPositions: _kept,
    layers.EncoderBlock: _block,
    layers.LayerNorm: _kept,
    layers.TokenPooling: _kept,
    layers.AttentionPooling: _attention_pooling,
    layers.StdConv: _std_conv,
    layers.StemPool: _kept,
    layers.ResidualUnit: _unit,
}
# Layers of the paper's ablations.
_RULES |= {
    getattr(layers, name): rule
    for name, rule in (("AxialBlock", _axial), ("PositionEmbedding2D", _kept), ("NoPositions", _kept))
    if hasattr(layers, name)
}
