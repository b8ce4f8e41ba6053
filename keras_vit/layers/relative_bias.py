"""A bias of the attention logits for each offset between two patches (BEiT, arXiv 2106.08254; Swin, arXiv 2103.14030).

N tokens, h w patch grid, H heads.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_vit.layers.base import Dense, Layer
from keras_vit.layers.decomposed_bias import DecomposedBias


def offset_index(grid: tuple[int, int]) -> np.ndarray:
    """Return the place of each pair of patches in a table of all offsets: (h w, h w)."""
    height, width = grid
    down, across = (side.reshape(-1) for side in np.mgrid[:height, :width])
    down, across = (side[:, None] - side[None, :] for side in (down, across))
    return (down + height - 1) * (2 * width - 1) + across + width - 1


class RelativeBiasTable(Layer):
    """A learned bias for each offset and head. With a class token, three further entries hold its biases.

    Args:
        num_heads: H.
        grid: (h, w) in patches.
        prefix_tokens: tokens in front of the patches, 0 or 1.

    Input: none. Output shape: (H, N, N).

    Raises:
        ValueError: there are several tokens in front of the patches.
    """

    def __init__(self, num_heads: int, grid: tuple[int, int], prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if prefix_tokens > 1:
            raise ValueError(f"relative_bias expected 0 or 1 tokens in front of the patches for a table, received "
                             f"{prefix_tokens}.")  # fmt: skip
        self.num_heads = num_heads
        self.grid = tuple(grid)
        self.prefix_tokens = prefix_tokens

    def build(self, input_shape=None):
        offsets = (2 * self.grid[0] - 1) * (2 * self.grid[1] - 1)
        shape = (offsets + 3 * self.prefix_tokens, self.num_heads)
        self.table = self.add_weight(name="table", shape=shape, initializer="zeros")
        index = np.pad(offset_index(self.grid), (self.prefix_tokens, 0))
        if self.prefix_tokens:
            index[0], index[:, 0], index[0, 0] = offsets, offsets + 1, offsets + 2
        self._index = index.astype("int32")

    def compute_output_shape(self, input_shape=None):
        return (self.num_heads, *self._index.shape)

    def bias(self, query: Any = None) -> Any:
        """Return the bias of the logits: (H, N, N). The query is not read."""
        table = ops.reshape(ops.convert_to_tensor(self.table), self.table.shape)  # whose gradient is dense, not indexed
        bias = ops.take(table, self._index.reshape(-1), axis=0)
        return ops.transpose(ops.reshape(bias, (*self._index.shape, self.num_heads)), (2, 0, 1))


class RelativeBiasMLP(Layer):
    """A bias that an MLP computes from the logarithm of the offset (Swin V2, arXiv 2111.09883; timm's mode `cr`).

    The bias of tokens in front of the patches is zero.

    Args:
        num_heads: H.
        grid: (h, w) in patches.
        prefix_tokens: tokens in front of the patches.
        hidden: width between the MLP's dense layers.

    Input: none. Output shape: (H, N, N).
    """

    def __init__(self, num_heads: int, grid: tuple[int, int], prefix_tokens: int = 0, hidden: int = 128, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.grid = tuple(grid)
        self.prefix_tokens = prefix_tokens
        self.hidden = hidden

    def build(self, input_shape=None):
        self.fc1 = self.make_part(Dense, self.hidden, activation="relu", name="fc1")
        self.fc1.build((None, 2))
        self.fc2 = self.make_part(Dense, self.num_heads, name="fc2")
        self.fc2.build((None, self.hidden))
        height, width = self.grid
        offsets = np.stack(np.mgrid[1 - height : height, 1 - width : width], axis=-1).reshape(-1, 2)
        self._coordinates = (np.sign(offsets) * np.log1p(np.abs(offsets))).astype("float32")
        self._index = offset_index(self.grid).astype("int32")

    def compute_output_shape(self, input_shape=None):
        tokens = self.prefix_tokens + len(self._index)
        return (self.num_heads, tokens, tokens)

    def bias(self, query: Any = None) -> Any:
        """Return the bias of the logits: (H, N, N). The query is not read."""
        coordinates = ops.convert_to_tensor(self._coordinates, dtype=self.compute_dtype)
        bias = ops.take(self.fc2(self.fc1(coordinates)), self._index.reshape(-1), axis=0)
        bias = ops.transpose(ops.reshape(bias, (*self._index.shape, self.num_heads)), (2, 0, 1))
        return ops.pad(bias, [[0, 0], [self.prefix_tokens, 0], [self.prefix_tokens, 0]])


class SharedRelativeBias(RelativeBiasMLP):
    """A `RelativeBiasMLP` that all attentions of a model add to their logits.

    Args: as `RelativeBiasMLP`.

    Input: the embedded patches, which are not read. Output shape: (1, H, N, N).
    """

    def compute_output_shape(self, input_shape=None):
        return (1, *super().compute_output_shape(input_shape))

    def call(self, patches):
        return self.bias()[None]


RELATIVE_BIASES = {"table": RelativeBiasTable, "mlp": RelativeBiasMLP, "decomposed": DecomposedBias}
