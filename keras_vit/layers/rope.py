"""Rotary position embedding (RoPE; arXiv 2104.09864) of the patch grid.

For images it is used by EVA-02 (arXiv 2303.11331), RoPE-ViT (arXiv 2403.13298) and DINOv3 (arXiv 2508.10104).

B batch, N tokens, h w patch grid, H heads, d width of a head. A dictionary `rope` holds the fields of
`keras_vit.Rope`.
"""

import math

import keras
import numpy as np
from keras import ops


def add_frequencies(attention, size: int):
    """Add the learned frequencies of an attention: (2, H, d / 2), for the first and the second coordinate."""
    return attention.add_weight(
        name="frequencies",
        shape=(2, attention.num_heads, size // 2),
        initializer=lambda shape, dtype=None: ops.cast(_random_directions(attention.rope, shape), dtype),
    )


def _random_directions(rope, shape):
    """Return the axial frequencies, rotated by a random angle for each head as in RoPE-ViT."""
    magnitudes = _magnitudes(rope, 2 * shape[-1])
    angle = keras.random.uniform((shape[1], 1), 0, 2 * math.pi)
    of_angle = [
        ops.concatenate([ops.multiply(magnitudes, f(angle + turn)) for turn in (0, math.pi / 2)], -1)
        for f in (ops.cos, ops.sin)
    ]
    return ops.stack(of_angle)


def _magnitudes(rope, size: int) -> np.ndarray:
    """Return the frequencies of one coordinate: (d / 4,)."""
    quarter = size // 4
    return (rope["temperature"] ** (-np.arange(quarter) / quarter)).astype("float32")


def axial_frequencies(rope, size: int) -> np.ndarray:
    """Return fixed frequencies (2, 1, d / 2): each half of the pairs turns with one of the coordinates."""
    magnitudes, zeros = _magnitudes(rope, size), np.zeros(size // 4, "float32")
    return np.stack([np.concatenate([magnitudes, zeros]), np.concatenate([zeros, magnitudes])])[:, None]


def is_augmented(rope) -> bool:
    """Return whether the coordinates are changed in training."""
    return any(rope.get(name) is not None for name in ("shift", "jitter", "rescale"))


def coordinate_changes(rope, seed_generator):
    """Draw the changes of the coordinates for one step of training: shifts (2,) and factors (2,), down and across.

    The parts of a batch on several devices have the same changes, so they are not drawn by `use_random_values`.
    """
    values = 2 * keras.random.uniform((5,), dtype="float32", seed=seed_generator) - 1  # in [-1, 1)
    jitter, rescale = (math.log(rope.get(name) or 1) for name in ("jitter", "rescale"))
    return (rope.get("shift") or 0) * values[:2], ops.exp(jitter * values[2:4] + rescale * values[4])


def rotary_angles(rope, grid, prefix_tokens: int, frequencies, changes=None):
    """Return the angles by which the pairs of a query or key are rotated: (prefix + h w, H or 1, d / 2), in float32.

    The angles of tokens in front of the patches are zero.

    Args:
        rope: fields of `keras_vit.Rope`.
        grid: (h, w), ints or tensors.
        prefix_tokens: number of tokens in front of the patches.
        frequencies: (2, H or 1, d / 2).
        changes: result of `coordinate_changes`, in training.
    """
    frequencies = ops.cast(frequencies, "float32")
    reference = rope["reference_grid"] or (None, None)
    down, across = (_coordinates(rope, side, of) for side, of in zip(grid, reference, strict=True))
    if changes is not None:
        shifts, factors = changes
        down, across = (down + shifts[0]) * factors[0], (across + shifts[1]) * factors[1]
    if rope["coordinates"] == "centers":
        down, across = 2 * math.pi * down, 2 * math.pi * across
    down, across = ops.reshape(down, (-1, 1, 1, 1)), ops.reshape(across, (1, -1, 1, 1))
    first, second = (across, down) if rope["order"] == "xy" else (down, across)
    angles = first * frequencies[0] + second * frequencies[1]  # (h, w, H, d / 2)
    angles = ops.reshape(angles, (-1, *frequencies.shape[1:]))
    return ops.pad(angles, [[prefix_tokens, 0], [0, 0], [0, 0]])


def _coordinates(rope, side, reference):
    """Return the coordinates of the patches along one axis: (side,). Those of `centers` lie in [-1, 1]."""
    cells = ops.cast(ops.arange(side), "float32") + rope["offset"]
    if rope["coordinates"] == "centers":
        return 2 * (cells + 0.5) / ops.cast(side, "float32") - 1
    return cells if reference is None else cells / ops.cast(side, "float32") * reference


def rotate(x, cos, sin, pairs: str):
    """Rotate the pairs of features of each head: (B, N, H, d) -> the same shape.

    Args:
        x: queries or keys.
        cos: cosines of the angles, (N, H or 1, d / 2); `sin` are their sines.
        pairs: `neighbours` pairs features 2 i and 2 i + 1, `halves` pairs features i and i + d / 2.
    """
    half, axis = x.shape[-1] // 2, -1 if pairs == "neighbours" else -2
    split = (half, 2) if pairs == "neighbours" else (2, half)
    shape = (-1, ops.shape(x)[1], x.shape[2])
    a, b = ops.unstack(ops.reshape(ops.cast(x, "float32"), (*shape, *split)), 2, axis=axis)
    rotated = ops.stack([a * cos - b * sin, b * cos + a * sin], axis=axis)
    return ops.cast(ops.reshape(rotated, (*shape, x.shape[-1])), x.dtype)
