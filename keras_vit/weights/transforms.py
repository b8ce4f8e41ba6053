"""Convert arrays of files to variables, and back.

D width, h heads, d = D / h, I O channels in and out, C channels, K classes. Our kernels are (I, O) and (H, W, I, O).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Transform:
    """A conversion between arrays of a file and one variable.

    Args:
        read: a function of the file's arrays that returns our array.
        write: a function of our array and the number of heads that returns the file's arrays.
        heads_axis: axis of the first file array that counts heads; None if no axis does.
        flat: the conversion if the file's array has two axes; None for the same.
    """

    read: Callable[..., np.ndarray]
    write: Callable[[np.ndarray, int], tuple[np.ndarray, ...]]
    heads_axis: int | None = None
    flat: "Transform | None" = None

    def shape(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of our array for the shapes of the file's arrays. Read no data."""
        return self.read(*(np.broadcast_to(np.int8(0), shape) for shape in shapes)).shape

    def shapes(self, shape: tuple[int, ...], heads: int) -> list[tuple[int, ...]]:
        """Return the shapes of the file's arrays for the shape of our array. Read no data."""
        return [part.shape for part in self.write(np.broadcast_to(np.int8(0), shape), heads)]


class Heads(int):
    """A number of attention heads, of which `per_key` share a key and a value."""

    per_key = 1


def heads_of(layer) -> Heads:
    """Return the number of attention heads of a layer; 1 without attention."""
    heads = Heads(getattr(layer, "num_heads", 1))
    heads.per_key = (getattr(layer, "attention_options", None) or {}).get("heads_per_key", 1)
    return heads


def _query_key_value(x: np.ndarray, heads: int) -> tuple[np.ndarray, ...]:
    """Split the first axis of query, key and value, of which the last two can be shorter."""
    per_key = heads.per_key if isinstance(heads, Heads) else 1
    query = len(x) * per_key // (per_key + 2)
    return tuple(np.split(x, [query, (len(x) + query) // 2]))


SAME = Transform(lambda x: x, lambda x, heads: (x,))
CHANNELS = Transform(lambda x: x.reshape(-1), lambda x, heads: (x.reshape(1, 1, 1, -1),))  # (1, 1, 1, C) <-> (C,)
POINTWISE = Transform(lambda x: x.reshape(x.shape[-2:]), lambda x, heads: (x[None, None],))  # (1, 1, C, K) <-> (C, K)


def _joined_kernels(parts: int) -> Transform:
    """Convert `parts` arrays (D, h, d) <-> (D, parts * D)."""
    return Transform(
        lambda *theirs: np.concatenate([x.reshape(len(x), -1) for x in theirs], axis=1),
        lambda x, heads: tuple(part.reshape(len(x), heads, -1) for part in np.split(x, parts, axis=1)),
        heads_axis=1,
    )


def _joined_biases(parts: int) -> Transform:
    """Convert `parts` arrays (h, d) <-> (parts * D,)."""
    return Transform(
        lambda *theirs: np.concatenate([x.reshape(-1) for x in theirs]),
        lambda x, heads: tuple(part.reshape(heads, -1) for part in np.split(x, parts)),
        heads_axis=0,
    )


QKV_KERNEL, QKV_BIAS = _joined_kernels(3), _joined_biases(3)
KV_KERNEL, KV_BIAS = _joined_kernels(2), _joined_biases(2)
IN_KERNEL, IN_BIAS = _joined_kernels(1), _joined_biases(1)
OUT_KERNEL = Transform(  # (h, d, D) <-> (D, D)
    lambda x: x.reshape(-1, x.shape[-1]), lambda x, heads: (x.reshape(heads, -1, x.shape[-1]),), heads_axis=0
)

TRANSPOSED = Transform(lambda x: x.T, lambda x, heads: (x.T,))  # (O, I) <-> (I, O)
TORCH_CONV = Transform(  # (O, I, H, W) <-> (H, W, I, O)
    lambda x: x.transpose(2, 3, 1, 0), lambda x, heads: (x.transpose(3, 2, 0, 1),)
)

FLAT_PATCH = Transform(  # (D, P * P * 3), a dense layer of flat RGB patches <-> (P, P, 3, D)
    lambda x: x.T.reshape(*[math.isqrt(x.shape[-1] // 3)] * 2, 3, len(x)),
    lambda x, heads: (x.reshape(-1, x.shape[-1]).T,),
)
PATCH_KERNEL = replace(TORCH_CONV, flat=FLAT_PATCH)
TORCH_DEPTHWISE = Transform(  # (C, 1, H, W) <-> (H, W, C, 1)
    lambda x: x.transpose(2, 3, 0, 1), lambda x, heads: (x.transpose(2, 3, 0, 1),)
)
TORCH_POINTWISE = Transform(  # (K, C, 1, 1) <-> (C, K)
    lambda x: x.reshape(x.shape[:2]).T, lambda x, heads: (x.T[:, :, None, None],)
)


def _square_patches(x: np.ndarray) -> np.ndarray:
    """Convert the kernel (O, P P I) of flattened patches to (P, P, I, O), for 3, 1 or 4 channels I."""
    sides = {channels: math.isqrt(x.shape[1] // channels) for channels in (3, 1, 4)}
    channels = next((count for count, side in sides.items() if side * side * count == x.shape[1]), None)
    if channels is None:
        raise ValueError(f"a kernel of flattened patches expected square patches, received shape {x.shape}.")
    return x.T.reshape(sides[channels], sides[channels], channels, -1)


def _on_square_grid(x: np.ndarray, heads: int) -> tuple[np.ndarray, ...]:
    """Convert positions (1, T, D) to (1, h, w, D), with h = 1 if T is no square."""
    side = math.isqrt(x.shape[1])
    return (x.reshape(1, side if side * side == x.shape[1] else 1, -1, x.shape[2]),)


LINEAR_PATCHES = Transform(_square_patches, lambda x, heads: (x.reshape(-1, x.shape[-1]).T,))
POSITION_GRID = Transform(lambda x: x.reshape(1, -1, x.shape[-1]), _on_square_grid)  # (1, h, w, D) <-> (1, h w, D)
FIRST = Transform(lambda x: x[0], lambda x, heads: (x[None],))  # (1, n, D) <-> (n, D)
TORCH_QKV = Transform(  # three (D, D), each (O, I) <-> (D, 3 D)
    lambda *qkv: np.concatenate(qkv).T, lambda x, heads: _query_key_value(x.T, heads)
)
JOINED = Transform(
    lambda *qkv: np.concatenate(qkv), lambda x, heads: _query_key_value(x, heads)
)  # three (D,) <-> (3 D,)
HALVES = Transform(  # two (M, D), each (O, I) <-> (D, 2 M)
    lambda *halves: np.concatenate(halves).T, lambda x, heads: tuple(np.split(x.T, 2))
)
HALF_BIASES = Transform(lambda *halves: np.concatenate(halves), lambda x, heads: tuple(np.split(x, 2)))
# The kernels (K, D) and biases (K,) of two classifiers <-> those of their mean as one classifier, (2 D, K) and (K,).
MEAN_KERNEL = Transform(
    lambda *two: np.concatenate(two, axis=1).T / 2, lambda x, heads: tuple(2 * half.T for half in np.split(x, 2))
)
MEAN_BIAS = Transform(lambda one, other: (one + other) / 2, lambda x, heads: (x, x))
MASKED = Transform(lambda x, mask: x * mask, lambda x, heads: (x, np.ones_like(x)))  # DINOv3's bias without a key's


def zeros(count: int) -> Transform:
    """Return the transform of no arrays to `count` zeros: the bias of a dense layer that has none in the file."""
    return Transform(lambda: np.zeros(count, "float32"), lambda x, heads: ())
