"""ONE table of names: ours <-> those of the published layouts, read in both directions.

`{i}` stands for the block. Where our variable holds several of theirs, a transform joins and splits them.
D width, h heads, d = D / h.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Transform:
    """How arrays of a file become one of our variables, and back.

    Args:
        read: their arrays -> our array.
        write: our array, number of heads -> their arrays.
    """

    read: Callable[..., np.ndarray]
    write: Callable[[np.ndarray, int], tuple[np.ndarray, ...]]


SAME = Transform(lambda x: x, lambda x, heads: (x,))
QKV_KERNEL = Transform(  # three (D, h, d) <-> (D, 3 D)
    lambda *qkv: np.concatenate([x.reshape(len(x), -1) for x in qkv], axis=1),
    lambda x, heads: tuple(part.reshape(len(x), heads, -1) for part in np.split(x, 3, axis=1)),
)
QKV_BIAS = Transform(  # three (h, d) <-> (3 D,)
    lambda *qkv: np.concatenate([x.reshape(-1) for x in qkv]),
    lambda x, heads: tuple(part.reshape(heads, -1) for part in np.split(x, 3)),
)
IN_KERNEL = Transform(  # (D, h, d) <-> (D, D)
    lambda x: x.reshape(len(x), -1), lambda x, heads: (x.reshape(len(x), heads, -1),)
)
IN_BIAS = Transform(lambda x: x.reshape(-1), lambda x, heads: (x.reshape(heads, -1),))  # (h, d) <-> (D,)
OUT_KERNEL = Transform(  # (h, d, D) <-> (D, D)
    lambda x: x.reshape(-1, x.shape[-1]), lambda x, heads: (x.reshape(heads, -1, x.shape[-1]),)
)


@dataclass(frozen=True)
class Row:
    """One variable of ours, and what each layout calls it."""

    ours: str
    npz: tuple[str, ...]  # the released files: sublayers of a block numbered 0 to 3
    linen: tuple[str, ...]  # the current official code: numbered by kind
    transform: Transform = SAME


LAYOUTS = ("npz", "linen")


def _row(ours: str, npz: str | tuple, linen: str | tuple | None = None, transform: Transform = SAME) -> Row:
    as_tuple = lambda names: (names,) if isinstance(names, str) else tuple(names)  # noqa: E731
    return Row(ours, as_tuple(npz), as_tuple(linen or npz), transform)


def _block(ours: str, npz: str, linen: str, transform: Transform = SAME, parts: tuple = ("",)) -> Row:
    theirs = "Transformer/encoderblock_{i}/"
    return _row(
        "encoder_block_{i}/" + ours,
        [theirs + npz.replace("*", part) for part in parts],
        [theirs + linen.replace("*", part) for part in parts],
        transform,
    )


def _map_head(ours: str, theirs: str, transform: Transform = SAME) -> Row:
    return _row("pooling/" + ours, "MAPHead_0/" + theirs, transform=transform)


_QKV = ("query", "key", "value")
TABLE = (
    _row("embedding/kernel", "embedding/kernel"),
    _row("embedding/bias", "embedding/bias"),
    _row("class_token/token", "cls"),
    _row("position_embedding/embedding", "Transformer/posembed_input/pos_embedding"),
    _block("attention_norm/gamma", "LayerNorm_0/scale", "LayerNorm_0/scale"),
    _block("attention_norm/beta", "LayerNorm_0/bias", "LayerNorm_0/bias"),
    _block(
        "attention/qkv/kernel",
        "MultiHeadDotProductAttention_1/*/kernel",
        "MultiHeadDotProductAttention_0/*/kernel",
        QKV_KERNEL,
        _QKV,
    ),
    _block(
        "attention/qkv/bias",
        "MultiHeadDotProductAttention_1/*/bias",
        "MultiHeadDotProductAttention_0/*/bias",
        QKV_BIAS,
        _QKV,
    ),
    _block(
        "attention/out/kernel",
        "MultiHeadDotProductAttention_1/out/kernel",
        "MultiHeadDotProductAttention_0/out/kernel",
        OUT_KERNEL,
    ),
    _block("attention/out/bias", "MultiHeadDotProductAttention_1/out/bias", "MultiHeadDotProductAttention_0/out/bias"),
    _block("mlp_norm/gamma", "LayerNorm_2/scale", "LayerNorm_1/scale"),
    _block("mlp_norm/beta", "LayerNorm_2/bias", "LayerNorm_1/bias"),
    _block("mlp/fc1/kernel", "MlpBlock_3/Dense_0/kernel", "MlpBlock_0/Dense_0/kernel"),
    _block("mlp/fc1/bias", "MlpBlock_3/Dense_0/bias", "MlpBlock_0/Dense_0/bias"),
    _block("mlp/fc2/kernel", "MlpBlock_3/Dense_1/kernel", "MlpBlock_0/Dense_1/kernel"),
    _block("mlp/fc2/bias", "MlpBlock_3/Dense_1/bias", "MlpBlock_0/Dense_1/bias"),
    _row("encoder_norm/gamma", "Transformer/encoder_norm/scale"),
    _row("encoder_norm/beta", "Transformer/encoder_norm/bias"),
    _map_head("probe", "probe"),
    _map_head("query/kernel", "MultiHeadDotProductAttention_0/query/kernel", IN_KERNEL),
    _map_head("query/bias", "MultiHeadDotProductAttention_0/query/bias", IN_BIAS),
    _map_head("key/kernel", "MultiHeadDotProductAttention_0/key/kernel", IN_KERNEL),
    _map_head("key/bias", "MultiHeadDotProductAttention_0/key/bias", IN_BIAS),
    _map_head("value/kernel", "MultiHeadDotProductAttention_0/value/kernel", IN_KERNEL),
    _map_head("value/bias", "MultiHeadDotProductAttention_0/value/bias", IN_BIAS),
    _map_head("out/kernel", "MultiHeadDotProductAttention_0/out/kernel", OUT_KERNEL),
    _map_head("out/bias", "MultiHeadDotProductAttention_0/out/bias"),
    _map_head("norm/gamma", "LayerNorm_0/scale"),
    _map_head("norm/beta", "LayerNorm_0/bias"),
    _map_head("mlp/fc1/kernel", "MlpBlock_0/Dense_0/kernel"),
    _map_head("mlp/fc1/bias", "MlpBlock_0/Dense_0/bias"),
    _map_head("mlp/fc2/kernel", "MlpBlock_0/Dense_1/kernel"),
    _map_head("mlp/fc2/bias", "MlpBlock_0/Dense_1/bias"),
    _row("pre_logits/kernel", "pre_logits/kernel"),
    _row("pre_logits/bias", "pre_logits/bias"),
    _row("head/kernel", "head/kernel"),
    _row("head/bias", "head/bias"),
)
_BY_OURS = {row.ours: row for row in TABLE}


def row_of(path: str) -> tuple[Row, str]:
    """The table's row for a variable's path, and its block number as text.

    Raises:
        KeyError: the table has no such variable.
    """
    first, _, rest = path.partition("/")
    if first.startswith("encoder_block_"):
        return _BY_OURS["encoder_block_{i}/" + rest], str(int(first.removeprefix("encoder_block_")))
    return _BY_OURS[path], ""


def theirs(row: Row, block: str, layout: str) -> list[str]:
    """The names in a layout of what `row` holds for a block."""
    return [name.replace("{i}", block) for name in getattr(row, layout)]
