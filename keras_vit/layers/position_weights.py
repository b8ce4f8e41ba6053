"""Resize stored positions to the grid of each image by matrices of weights, inside the graph.

`keras_vit.weights.resize` resizes to one grid by the same formulas.

B batch, N patches.
"""

from keras import ops

METHODS = ("official", "timm", "timm_npz", "hf", "siglip2", "official_square", "timm_square", "timm_npz_square")


def require_sequence_method(method: str) -> str:
    """Return `method` if sequences of patches can be resized by it, else raise a ValueError."""
    if method not in METHODS:
        raise ValueError(f"position_resize expected one of {METHODS} for sequences of patches, received {method!r}.")
    return method


def position_weights(coordinates, valid, grid: tuple[int, int], method: str) -> tuple:
    """Return the weights by which each patch adds up the stored positions of its column and of its row.

    Args:
        coordinates: row and column of each patch (B, N, 2). An image's grid ends at its last row and column.
        valid: whether a patch is no padding (B, N).
        grid: (height, width) of the stored positions.
        method: one of `METHODS`, as in `keras_vit.load_weights`.

    Returns:
        The weights of the stored rows (B, N, height) and of the stored columns (B, N, width), float32.
    """
    places = ops.cast(ops.cast(coordinates, "int32"), "float32")
    places = ops.where(ops.cast(valid, "bool")[..., None], places, 0.0)
    sides = ops.max(places, axis=1, keepdims=True) + 1  # (B, 1, 2)
    if method.endswith("_square"):
        sides = ops.max(sides, axis=-1, keepdims=True)
    sides = ops.broadcast_to(sides, ops.shape(places))
    weights = _WEIGHTS[method.removesuffix("_square")]
    down, across = (weights(places[..., axis, None], sides[..., axis, None], old) for axis, old in enumerate(grid))
    return down, across


def _centers(places, sides, old):
    """Return the centers of the cells of the image's grid in coordinates of the stored grid."""
    return (places + 0.5) * old / sides - 0.5


def _triangle(distance):
    return ops.maximum(1 - distance, 0.0)


def _cubic(distance, a: float):
    """Return Keys' cubic convolution kernel at a distance of at least 0."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return ops.where(distance < 1, near, ops.where(distance < 2, far, 0.0))


def _cells(old):
    return ops.arange(old, dtype="float32")


def _corner_aligned(places, sides, old):
    return _triangle(ops.abs(places * (old - 1) / ops.maximum(sides - 1, 1.0) - _cells(old)))


def _bilinear(places, sides, old):
    inside = ops.clip(_centers(places, sides, old), 0.0, old - 1.0)
    return _triangle(ops.abs(inside - _cells(old)))


def _bicubic(places, sides, old):
    """Sum the four taps; those outside the grid are clamped to its border. torch uses a = -0.75."""
    source = _centers(places, sides, old)
    first, weights = ops.floor(source), 0.0
    for offset in (-1.0, 0.0, 1.0, 2.0):
        tap = first + offset
        chosen = ops.cast(ops.equal(ops.clip(tap, 0.0, old - 1.0), _cells(old)), "float32")
        weights = weights + _cubic(ops.abs(source - tap), -0.75) * chosen
    return weights


def _antialiased(kernel):
    def weights(places, sides, old):
        distance = ops.abs(_centers(places, sides, old) - _cells(old))
        spread = kernel(distance / ops.maximum(old / sides, 1.0))
        return spread / ops.sum(spread, axis=-1, keepdims=True)

    return weights


_WEIGHTS = {
    "official": _corner_aligned,
    "timm": _antialiased(lambda distance: _cubic(distance, -0.5)),
    "timm_npz": _bilinear,
    "hf": _bicubic,
    "siglip2": _antialiased(_triangle),
}
