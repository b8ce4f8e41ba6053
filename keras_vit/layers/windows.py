"""Windows of the patch grid, within which attention is computed (Swin, arXiv 2103.14030; ViTDet, arXiv 2203.16527).

B batch, h w patch grid, N = h w tokens, S side of a window, n windows per image, D width, H heads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops


def window_counts(grid: tuple[int, int], side: int) -> tuple[int, int]:
    """Return the number of windows (down, across) that cover a grid."""
    height, width = grid
    return -(-height // side), -(-width // side)


def to_windows(tokens: Any, grid: tuple[int, int], side: int) -> Any:
    """Cut the grid of the tokens into windows: (B, N, D) -> (B * n, S * S, D).

    A grid that is not divisible is padded with zeros at the bottom and the right.
    """
    (height, width), (down, across), features = grid, window_counts(grid, side), tokens.shape[-1]
    x = ops.reshape(tokens, (-1, height, width, features))
    if (height, width) != (down * side, across * side):
        x = ops.pad(x, [[0, 0], [0, down * side - height], [0, across * side - width], [0, 0]])
    x = ops.transpose(ops.reshape(x, (-1, down, side, across, side * features)), (0, 1, 3, 2, 4))
    return ops.reshape(x, (-1, side * side, features))


def from_windows(windows: Any, grid: tuple[int, int], side: int) -> Any:
    """Join the windows of a grid, and drop its padding: (B * n, S * S, D) -> (B, N, D)."""
    (height, width), (down, across), features = grid, window_counts(grid, side), windows.shape[-1]
    x = ops.transpose(ops.reshape(windows, (-1, down, across, side, side * features)), (0, 1, 3, 2, 4))
    x = ops.reshape(x, (-1, down * side, across * side, features))[:, :height, :width]
    return ops.reshape(x, (-1, height * width, features))


def change_through_grid(weights: Any, change: Callable, grid: tuple[int, int], side: int) -> Any:
    """Return attention weights within windows after a change of the weights between all tokens of the grid.

    The weights of padding are not part of the grid, so that they stay unchanged.

    Args:
        weights: (B * n, H, S * S, S * S).
        change: a function of weights (B, H, N, N) that returns the weights to use instead.
        grid: (h, w).
        side: S.
    """
    whole = grid_weights(weights, grid, side)
    return weights + _window_weights(change(whole) - whole, grid, side)


def grid_weights(weights: Any, grid: tuple[int, int], side: int) -> Any:
    """Return attention weights between all tokens: (B * n, H, S * S, S * S) -> (B, H, N, N).

    Weights between tokens of different windows are 0. A row sums to less than 1 if padding has a share.
    """
    tokens, heads, cells = _tokens_of_windows(grid, side), weights.shape[1], side * side
    place = np.zeros(grid[0] * grid[1], "int32")  # of each token, in the sequence of all windows
    place[tokens[tokens >= 0]] = np.flatnonzero(tokens >= 0)
    x = ops.transpose(ops.reshape(weights, (-1, len(tokens), heads, cells, cells)), (0, 2, 1, 3, 4))
    x = ops.take(ops.reshape(x, (-1, heads, len(tokens) * cells, cells)), place, axis=2)
    same = place[:, None] // cells == place[None, :] // cells
    return ops.take(x, place % cells, axis=3) * ops.cast(same, weights.dtype)


def _window_weights(whole: Any, grid: tuple[int, int], side: int) -> Any:
    """Return the weights between all tokens within windows, zeros for padding: the inverse of `grid_weights`."""
    tokens, heads, count = _tokens_of_windows(grid, side), whole.shape[1], grid[0] * grid[1]
    real, safe = tokens >= 0, np.maximum(tokens, 0)
    index = (safe[:, :, None] * count + safe[:, None, :]).astype("int32")  # (n, S * S, S * S)
    x = ops.take(ops.reshape(whole, (-1, heads, count * count)), index.reshape(-1), axis=2)
    x = ops.reshape(x, (-1, heads, *index.shape)) * ops.cast(real[:, :, None] & real[:, None, :], whole.dtype)
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3, 4)), (-1, heads, *index.shape[1:]))


def _tokens_of_windows(grid: tuple[int, int], side: int) -> np.ndarray:
    """Return the token in each cell of each window, -1 for padding: (n, S * S)."""
    down, across = window_counts(grid, side)
    padded = np.full((down * side, across * side), -1)
    padded[: grid[0], : grid[1]] = np.arange(grid[0] * grid[1]).reshape(grid)
    return padded.reshape(down, side, across, side).transpose(0, 2, 1, 3).reshape(-1, side * side)
