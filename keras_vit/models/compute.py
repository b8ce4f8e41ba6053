"""How much arithmetic a forward pass is, by the sizes of a row (Table 6 of arXiv 2010.11929).

N tokens, D width, M MLP width, P patch, F filters, C channels.
"""

from keras_vit.layers import as_pair
from keras_vit.models.variants import BiTVariant, Variant


def multiplications(
    row: Variant | BiTVariant,
    input_shape: tuple[int, int, int] | None = None,
    patch_size: int | tuple[int, int] | None = None,
    class_token: bool = True,
) -> int:
    """Multiply-adds of one image, forward, without the classifier and without norms and activations.

    A convolution's taps outside the image are not counted, as XLA does not count them. Training takes three times as
    many, the backward pass being two forward ones; each is two floating-point operations.

    Args:
        row: of the table, or your own.
        input_shape: (height, width, channels); the row's, in colour, where None.
        patch_size: pixels of a patch in place of the row's, one int or (height, width).
        class_token: whether there is one.
    """
    height, width, channels = input_shape or (row.image_size, row.image_size, 3)
    if isinstance(row, BiTVariant):
        return _resnet((height, width), channels, row.units, int(64 * row.width_factor))[0]
    stem = 0
    if row.stem is not None:
        filters = int(64 * row.stem.width_factor)
        stem, (height, width), channels = _resnet((height, width), channels, row.stem.units, filters)
    patch = as_pair(row.patch_size if patch_size is None else patch_size)
    patches = (height // patch[0]) * (width // patch[1])
    d, m = row.width, row.mlp_dim
    # A block's attentions: so many tokens, each to so many.
    across, down = width // patch[1], height // patch[0]
    pairs = [(patches, across), (patches, down)] if row.axial else [(patches + class_token,) * 2]
    block = 0
    for tokens, seen in pairs:
        offsets = 2 * seen - 1 if row.positions == "relative" else 0
        block += tokens * (4 * d * d + 2 * d * m) + tokens * (2 * seen + offsets) * d
    return stem + patches * patch[0] * patch[1] * channels * d + row.depth * block


def _resnet(sides, channels, units, filters) -> tuple[int, tuple[int, int], int]:
    """Of a ResNet without its head: multiply-adds, the sides of its last map, and that map's channels."""
    total, sides = _convolution(sides, 7, 2, channels, filters)
    sides, channels = tuple(-(-side // 2) for side in sides), filters  # the pool
    for stage, count in enumerate(units):
        narrow = filters * 2**stage
        for unit in range(count):
            stride = 2 if stage and not unit else 1
            first, _ = _convolution(sides, 1, 1, channels, narrow)
            second, after = _convolution(sides, 3, stride, narrow, narrow)
            third, _ = _convolution(after, 1, 1, narrow, 4 * narrow)
            total += first + second + third
            if stride > 1 or channels != 4 * narrow:
                total += _convolution(sides, 1, stride, channels, 4 * narrow)[0]
            sides, channels = after, 4 * narrow
    return total, sides, channels


def _convolution(sides, kernel, stride, channels, filters) -> tuple[int, tuple[int, int]]:
    """Multiply-adds of a convolution padded as TensorFlow pads, and the sides of its output."""
    taps, after = 1, []
    for side in sides:
        outputs = -(-side // stride)
        before = max((outputs - 1) * stride + kernel - side, 0) // 2
        starts = (i * stride - before for i in range(outputs))
        taps *= sum(min(start + kernel, side) - max(start, 0) for start in starts)
        after.append(outputs)
    return taps * channels * filters, tuple(after)
