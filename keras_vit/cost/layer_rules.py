"""What each kind of layer computes and keeps: (layer, input shapes, output shape) -> (macs, numbers kept).

Shapes are without the batch. N tokens, D width, M MLP width, C channels, F filters.
"""

import math

import keras

from keras_vit import layers
from keras_vit.composed import Classifier
from keras_vit.layers.embedding import PrefixTokens


def rule_of(layer):
    """The rule of a layer's class; raises a ValueError where it has products that are not known here."""
    rule = next((_RULES[kind] for kind in type(layer).__mro__ if kind in _RULES), None)
    if rule is None and any(len(variable.shape) > 1 for variable in layer.weights):
        raise ValueError(f"model expected layers of this package, received {layer.name!r} of {type(layer)}.")
    return rule or _nothing


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
    """Of N tokens that each see so many: the attention's, the MLP's, both norms' results and both sums."""
    both = _attention(block, tokens, width, seen), _mlp(block.mlp, tokens, width, grid)
    macs, kept = map(sum, zip(*both, strict=True))
    return macs, 4 * tokens * width + kept


def _attention(layer, tokens, width, seen):
    """Of N tokens that each see so many; relative positions are one more product with every offset.

    Kept are q, k, v, the weights and what they gather.
    """
    offsets = 2 * seen - 1 if layer.relative_positions else 0
    macs = tokens * 4 * width**2 + tokens * (2 * seen + offsets) * width
    return macs, 4 * tokens * width + layer.num_heads * tokens * seen


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
    macs += there * channels * wide if layer.projects else 0
    kept = 2 * narrow * (here + there) + there * wide
    if layer.axial:
        for seen in before:
            attention = _attention(layer.conv2.row, here, narrow, seen)
            macs, kept = macs + attention[0], kept + attention[1]
        kept += here * narrow  # between the two
    else:
        macs += convolution(before, 3, layer.strides, narrow, narrow)[0]
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
    Classifier: _dense,
    keras.layers.ReLU: _kept,
    keras.layers.GlobalAveragePooling2D: _kept,
    layers.PatchEmbedding: _embedding,
    PrefixTokens: _nothing,
    layers.PositionEmbedding: _kept,
    layers.PositionEmbedding2D: _kept,
    layers.NoPositions: _kept,
    layers.SinCosPositions: _kept,
    layers.EncoderBlock: _block,
    layers.AxialBlock: _axial,
    layers.LayerNorm: _kept,
    layers.TokenPooling: _kept,
    layers.AttentionPooling: _attention_pooling,
    layers.StdConv: _std_conv,
    layers.StemPool: _kept,
    layers.ResidualUnit: _unit,
}
