"""Count the multiply-adds and saved activations of each kind of layer.

A rule is a function (layer, input shapes, output shape) -> (multiply-adds, saved activations) per image. Shapes have no
batch axis. Activations are saved if the backward pass needs them.
"""

import math

import keras

from keras_vit import layers
from keras_vit.composed import Classifier
from keras_vit.layers.embedding import PrefixTokens
from keras_vit.layers.windows import window_counts


def rule_of(layer):
    """Return the rule of a layer's class.

    Raises:
        ValueError: the layer has weights and no rule.
    """
    rule = next((_RULES[kind] for kind in type(layer).__mro__ if kind in _RULES), None)
    if rule is None and any(len(variable.shape) > 1 for variable in layer.weights):
        raise ValueError(f"model expected layers of this package, received {layer.name!r} of {type(layer)}.")
    return rule or _no_cost


def _no_cost(layer, inputs, output):
    return 0, 0


def _output_only(layer, inputs, output):
    """Save the output, which enters the next layer's matmul, norm or activation."""
    return 0, math.prod(output)


def _dense(layer, inputs, output):
    return math.prod(inputs[0][:-1]) * math.prod(layer.kernel.shape), math.prod(output)


def _embedding(layer, inputs, output):
    macs = math.prod(output[:2]) * math.prod(layer.kernel.shape)
    return macs, 0  # the sum with the position embedding is saved instead


def _sequence_embedding(layer, inputs, output):
    return output[0] * math.prod(layer.kernel.shape), 0


def _block(layer, inputs, output):
    return _attention_and_mlp(layer, *output, output[0], inputs[-1])


def _axial(layer, inputs, output):
    """Count a block along the rows of the patch grid, and a block along its columns."""
    down, across = inputs[-1][:2]
    return _add(*(_attention_and_mlp(layer.row, *output, side) for side in (across, down)))


def _add(*costs):
    """Add costs (multiply-adds, saved activations)."""
    macs, saved = map(sum, zip(*costs, strict=True))
    return macs, saved


def _attention_and_mlp(block, tokens, width, keys, grid=None):
    """Count an encoder block. The outputs of both norms and both residual sums are saved, too.

    A parallel block has one norm and one sum.
    """
    attention, mlp = _attention(block, tokens, width, keys), _mlp(block.mlp, tokens, width, grid)
    sums = 2 if isinstance(block, layers.ParallelBlock) else 4
    return _add(attention, mlp, (0, sums * tokens * width))


def _attention(layer, tokens, width, keys):
    """Count self-attention in which each token attends to `keys` tokens, or to those of its window.

    Relative positions add one matmul with all offsets, decomposed ones a matmul with the keys' rows and one with their
    columns. The padding of windows counts as tokens. The queries, keys, values, weights and weighted sums are saved.
    """
    offsets = 2 * keys - 1 if layer.relative_positions else 0
    options = getattr(layer, "attention_options", None) or {}
    if side := options.get("window"):
        tokens, keys = math.prod(window_counts(options["grid"], side)) * side**2, side**2
    if options.get("relative_bias") == "decomposed":
        offsets = sum((side, side) if side else options["grid"])
    differential = options.get("differential") is not None
    macs = tokens * (2 + 2 / options.get("heads_per_key", 1)) * width**2 + tokens * (2 * keys + offsets) * width
    # Norms of the output, of query and key, and of the heads of differential attention, which has two maps a head.
    normed = ("inner_norm" in options) + 2 * ("qk_norm" in options) + differential
    return round(macs), (4 + normed) * tokens * width + (1 + 2 * differential) * layer.num_heads * tokens * keys


def _mlp(mlp, tokens, width, grid):
    """Count an MLP. The input and output of its activation are saved, and the factors of a gate."""
    if isinstance(mlp, layers.ExtendedMLP):
        matmuls, values = 2 + mlp.gated, 2 + 2 * mlp.gated + (mlp.norm is not None)
        bottleneck = 2 * tokens * width * mlp.adapter_dim, tokens * mlp.adapter_dim
        return _add((matmuls * tokens * width * mlp.mlp_dim, values * tokens * mlp.mlp_dim), bottleneck)
    macs, saved = 2 * tokens * width * mlp.mlp_dim, 2 * tokens * mlp.mlp_dim
    if mlp.kernel_size:
        macs += convolution(grid[:2], mlp.kernel_size, 1, 1, mlp.mlp_dim)[0]
        saved += 2 * (tokens - mlp.prefix_tokens) * mlp.mlp_dim
    return macs, saved


def _attention_pooling(layer, inputs, output):
    tokens, width = inputs[0]
    macs = (2 * tokens + 2) * width**2 + 2 * tokens * width
    saved = 2 * tokens * width + layer.num_heads * tokens + 4 * width
    return _add(_mlp(layer.mlp, 1, width, None), (macs, saved))


def _std_conv(layer, inputs, output):
    height, width, channels = inputs[0]
    return convolution((height, width), layer.kernel_size, layer.strides, channels, layer.filters)[0], math.prod(output)


def _conv(layer, inputs, output):
    """Count a convolution as EfficientNet has them: padded, of all channels, without gaps. Or one without overlap."""
    if layer.groups == 1 and layer.kernel_size == layer.strides and layer.padding == "valid":
        return math.prod(output) * math.prod(layer.kernel_size) * inputs[0][-1], math.prod(output)
    if layer.groups != 1 or layer.dilation_rate != (1, 1) or (layer.padding != "same" and layer.kernel_size != (1, 1)):
        raise ValueError(f"model expected layers of this package, received {layer.name!r} with another padding than "
                         "'same', groups or dilation.")  # fmt: skip
    *sides, channels = inputs[0]
    return convolution(sides, layer.kernel_size, layer.strides[0], channels, layer.filters)[0], math.prod(output)


def _activation(layer, inputs, output):
    """Save the map that enters the next convolution. Named nodes and probabilities save nothing."""
    return 0, math.prod(output) if layer.activation in (keras.activations.silu, keras.activations.gelu) else 0


def _inverted_residual(layer, inputs, output):
    """Count the convolutions and the two dense layers of the excitation. Inputs of norms and swish are saved."""
    *in_sides, channels = inputs[0]
    *out_sides, filters = output
    width, squeezed = channels * layer.expansion, max(1, channels // 4)
    in_cells, out_cells = math.prod(in_sides), math.prod(out_sides)
    expands = layer.expansion > 1
    macs = in_cells * channels * width * expands + 2 * width * squeezed + out_cells * width * filters
    macs += convolution(in_sides, layer.kernel_size, layer.strides, 1, width)[0]
    saved = 3 * in_cells * width * expands + 4 * out_cells * width + 2 * (width + squeezed) + 2 * out_cells * filters
    return macs, saved


def _unit(layer, inputs, output):
    """Count three convolutions and the projection. The inputs of their norms and ReLUs are saved."""
    *in_sides, channels = inputs[0]
    *out_sides, out_channels = output
    filters, in_cells, out_cells = layer.filters, math.prod(in_sides), math.prod(out_sides)
    if isinstance(layer, layers.BasicPreActivationUnit):
        macs = (
            convolution(in_sides, 3, layer.strides, channels, filters)[0]
            + convolution(out_sides, 3, 1, filters, filters)[0]
        )
        macs += out_cells * channels * filters if layer.projects else 0
        return macs, 2 * in_cells * channels + 2 * out_cells * filters
    macs = in_cells * channels * filters + out_cells * filters * out_channels
    macs += out_cells * channels * out_channels if layer.projects else 0
    saved = 2 * filters * (in_cells + out_cells) + out_cells * out_channels
    if layer.axial:
        attentions = [_attention(layer.conv2.row, in_cells, filters, keys) for keys in in_sides]
        macs, saved = _add((macs, saved), *attentions, (0, in_cells * filters))  # last: between the two attentions
    else:
        macs += convolution(in_sides, 3, layer.strides, filters, filters)[0]
    if isinstance(layer, layers.PreActivationUnit):
        return macs, saved + in_cells * channels
    return macs, saved + out_cells * out_channels * (1 + layer.projects)


def convolution(sides, kernel, stride: int, channels: int, filters: int) -> tuple[int, tuple[int, int]]:
    """Count the multiply-adds of a convolution with outputs of ceil(side / stride), and return the output size.

    Taps outside the image are not counted. Their number is the same for TensorFlow's padding and symmetric padding.

    Args:
        sides: (height, width) of the input.
        kernel: kernel size, an int or (height, width).
        stride: stride in both directions.
        channels: input channels per filter.
        filters: output channels.
    """
    taps, out_sides = 1, []
    for side, size in zip(sides, layers.as_pair(kernel), strict=True):
        outputs = -(-side // stride)
        padding = max((outputs - 1) * stride + size - side, 0) // 2
        starts = (i * stride - padding for i in range(outputs))
        taps *= sum(min(start + size, side) - max(start, 0) for start in starts)
        out_sides.append(outputs)
    return taps * channels * filters, tuple(out_sides)


_RULES = {
    keras.layers.InputLayer: _output_only,
    keras.layers.Dense: _dense,
    Classifier: _dense,
    keras.layers.ReLU: _output_only,
    keras.layers.Conv2D: _conv,
    keras.layers.BatchNormalization: _output_only,
    keras.layers.Activation: _activation,
    keras.layers.GlobalAveragePooling2D: _output_only,
    layers.PatchEmbedding: _embedding,
    layers.SequenceEmbedding: _sequence_embedding,
    PrefixTokens: _no_cost,
    layers.Prompts: _output_only,
    layers.PositionEmbedding: _output_only,
    layers.PositionEmbedding2D: _output_only,
    layers.FactorizedPositions: _output_only,
    layers.NoPositions: _output_only,
    layers.SinCosPositions: _output_only,
    layers.MAEPositions: _output_only,
    layers.EncoderBlock: _block,
    layers.SharedRelativeBias: _no_cost,  # computed once for a batch
    layers.AxialBlock: _axial,
    layers.LayerNorm: _output_only,
    layers.RMSNorm: _output_only,
    layers.TokenPooling: _output_only,
    layers.AttentionPooling: _attention_pooling,
    layers.StdConv: _std_conv,
    layers.StemPool: _output_only,
    layers.EvoNorm: _output_only,
    layers.ResidualUnit: _unit,
    layers.InvertedResidual: _inverted_residual,
}
