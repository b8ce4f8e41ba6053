"""Relative positions in the logits of attention, one embedding for each axis (MViTv2, arXiv 2112.01526; ViTDet; SAM).

B batch, h w grid, N = h w tokens, H heads, d width of a head.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_vit.layers.base import Layer


class DecomposedBias(Layer):
    """The dot products of the queries with embeddings of the offsets of rows and of columns.

    Row j of a table is the embedding of a key that is j - (side - 1) patches before the query. The dot product is not
    divided by the root of d.

    Args:
        num_heads: H. All heads have the same embeddings.
        grid: (h, w) in patches.
        prefix_tokens: tokens in front of the patches, 0.

    Input: none. Output shape: (B, H, N, N).

    Raises:
        ValueError: there are tokens in front of the patches.
    """

    def __init__(self, num_heads: int, grid: tuple[int, int], prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if prefix_tokens:
            raise ValueError(f"relative_bias expected no tokens in front of the patches with 'decomposed', received "
                             f"{prefix_tokens}.")  # fmt: skip
        self.num_heads = num_heads
        self.grid = tuple(grid)
        self.prefix_tokens = prefix_tokens

    def build(self, input_shape):
        for name, side in zip(("down", "across"), self.grid, strict=True):
            table = self.add_weight(name=name, shape=(2 * side - 1, input_shape[-1]), initializer="zeros")
            setattr(self, name, table)

    def compute_output_shape(self, input_shape=None):
        tokens = self.grid[0] * self.grid[1]
        return (None, self.num_heads, tokens, tokens)

    def bias(self, query: Any) -> Any:
        """Return what is added to the logits of scaled queries: (B, H, N, d) -> (B, H, N, N)."""
        (height, width), size = self.grid, query.shape[-1]
        tokens = height * width
        query = ops.reshape(query, (-1, height, width, size))  # (B * H, h, w, d)
        down = ops.matmul(query, _of_pairs(self.down, height, query.dtype))  # (B * H, h, w, h)
        across = ops.matmul(ops.transpose(query, (0, 2, 1, 3)), _of_pairs(self.across, width, query.dtype))
        across = ops.transpose(across, (0, 2, 1, 3))  # (B * H, h, w, w)
        both = ops.reshape(down, (-1, tokens, height, 1)) + ops.reshape(across, (-1, tokens, 1, width))
        return ops.reshape(both, (-1, self.num_heads, tokens, tokens))


def _of_pairs(table, side: int, dtype):
    """Return the embeddings for each pair of query and key along an axis, times the root of d: (side, d, side)."""
    size = table.shape[-1]
    table = ops.reshape(ops.convert_to_tensor(table), table.shape)  # whose gradient is dense, not indexed
    index = np.arange(side)[:, None] - np.arange(side)[None, :] + side - 1
    pairs = ops.reshape(ops.take(table, index.reshape(-1).astype("int32"), axis=0), (side, side, size))
    return ops.cast(ops.transpose(pairs, (0, 2, 1)) * size**0.5, dtype)
