"""Position embeddings onto another grid.

h w grid, D width.
"""

import numpy as np


def resize_grid(grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize (h, w, D) to (*size, D), corner-aligned bilinear as the official `zoom(order=1)` (section 3.2)."""
    for axis, new in enumerate(size):
        old = grid.shape[axis]
        source = np.linspace(0, old - 1, new) if new > 1 else np.zeros(1)
        low = np.minimum(source.astype(int), max(old - 2, 0))
        share = (source - low).reshape([-1 if a == axis else 1 for a in range(3)])
        high = np.minimum(low + 1, old - 1)
        grid = np.take(grid, low, axis) * (1 - share) + np.take(grid, high, axis) * share
    return grid.astype("float32")


def resize_position_embedding(embedding: np.ndarray, grid: tuple[int, int], prefix_tokens: int) -> np.ndarray:
    """Resize (1, prefix_tokens + h * w, D) of a square grid to `grid`; the prefix tokens keep theirs.

    Raises:
        ValueError: the tokens behind the prefix are no square grid.
    """
    prefix, body = embedding[0, :prefix_tokens], embedding[0, prefix_tokens:]
    side = round(len(body) ** 0.5)
    if side * side != len(body):
        raise ValueError(
            f"position embedding expected {prefix_tokens} prefix tokens and a square grid, "
            f"received {len(embedding[0])} tokens."
        )
    body = resize_grid(body.reshape(side, side, -1), grid)
    return np.concatenate([prefix, body.reshape(grid[0] * grid[1], -1)])[None]
