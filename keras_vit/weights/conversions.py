"""Convert arrays whose shape differs from the model's: positions, first kernels and classifiers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np

from keras_vit.weights.contents import Contents, Entry
from keras_vit.weights.resize import resize_bias_table, resize_channels, resize_grid, resize_kernel, resize_offsets


@dataclass(frozen=True)
class Target:
    """A variable to fill.

    Args:
        path: path of the variable.
        shape: shape of the variable.
        layer: its layer.
        position_resize: method of resizing position embeddings.
        source_grid: (height, width) of the file's position embedding in patches; None if it is square.
    """

    path: str
    shape: tuple[int, ...]
    layer: object
    position_resize: str = "official"
    source_grid: tuple[int, int] | None = None


BIAS_TABLE = "encoder_block_00/attention/bias/table"
Conversion = tuple[Callable[[np.ndarray], np.ndarray] | None, str] | None


def find_conversion(target: Target, entry: Entry, contents: Contents) -> Conversion:
    """Find the conversion of an array to a variable of another shape.

    Returns:
        A function of the array, and a sentence about the conversion. The function is None if the variable keeps its
        initial values. The result is None if the array cannot be converted.

    Raises:
        ValueError: the grid of a position embedding is unknown.
    """
    layer, _, part = target.path.partition("/")
    if layer.startswith("position_embedding") and part == "embedding":
        return _fit_positions(target, entry, contents)
    if layer.startswith("position_embedding") and part in ("across", "down"):
        return _fit_side(target, entry)
    if part == "attention/bias/table":
        return _fit_bias_table(target, entry, contents)
    if part in ("attention/bias/down", "attention/bias/across"):
        return _fit_offsets(target, entry)
    if target.path in ("embedding/kernel", "stem_root/kernel", "stem_conv1/kernel", "root/kernel"):
        return _fit_kernel(target, entry)
    if target.path in ("head/kernel", "head/bias"):
        return _fit_head(target, contents)
    return None


def prefix_and_grid(shape: tuple[int, ...], prefix_tokens: int, grid=None) -> tuple[int, tuple[int, int]] | None:
    """Return the prefix tokens and the grid of a position embedding; None if its length is no square grid.

    Either all tokens in front of the patches have positions, or only the class token (DINOv2 with registers), or none
    (big_vision, DeiT III, timm's models with registers).

    Args:
        shape: (1, T, D) of the position embedding.
        prefix_tokens: number of tokens in front of the patches; all or only the last ones have positions.
        grid: (height, width) in patches, if known.
    """
    tokens = shape[-2]
    for prefix in sorted({min(prefix_tokens, count) for count in (prefix_tokens, 1, 0)}, reverse=True):
        body = tokens - prefix
        if grid and grid[0] * grid[1] == body:
            return prefix, tuple(grid)
        if not grid and body > 0 and isqrt(body) ** 2 == body:
            return prefix, (isqrt(body), isqrt(body))
    return None


def table_grid(shape: tuple[int, ...] | None, prefix_tokens: int) -> tuple[int, int] | None:
    """Return the grid of a table of relative biases, (offsets and 3 per prefix token, H); None if it is not square."""
    offsets = shape[0] - 3 * prefix_tokens if shape else 0
    side = isqrt(max(offsets, 0))
    return ((side + 1) // 2,) * 2 if side % 2 and side**2 == offsets else None


def other_grid(target: Target, entry: Entry, contents: Contents) -> bool:
    """Return whether a position embedding of the model's length has another grid.

    Raises:
        ValueError: the model's grid is not square, and the file's grid can be square or equal to it.
    """
    layer, _, part = target.path.partition("/")
    if not (layer.startswith("position_embedding") and part == "embedding"):
        return False
    grid = tuple(target.layer.grid)
    if target.source_grid:
        return tuple(target.source_grid) != grid
    square = prefix_and_grid(entry.shape, contents.prefix_tokens)
    if square is None or square[1] == grid or square[0] != target.layer.stored_prefix:
        return False
    raise ValueError(f"source_grid expected {square[1]} or {grid}, which both fit {contents.source!r}, received None.")


def _fit_positions(target, entry, contents) -> Conversion:
    if entry.shape[-1] != target.shape[-1]:
        return None
    prefix, grid = target.layer.stored_prefix, tuple(target.layer.grid)
    source = prefix_and_grid(entry.shape, contents.prefix_tokens, target.source_grid)
    if source is None and not target.source_grid:
        source = prefix_and_grid(entry.shape, contents.prefix_tokens, grid)
    if source is None:
        received = f"{entry.shape[-2]} tokens in {contents.source!r}"
        raise ValueError(f"source_grid expected (height, width) of a grid that is not square, received {received}.")
    old_prefix, old_grid = source
    if old_prefix > prefix:
        return None
    sentences = []
    if old_prefix < prefix:
        without = "the class token's position is" if prefix == 1 else "positions of tokens in front of the patches are"
        sentences.append(f"{without} zeros")
    if old_grid != grid:
        sentences.append(f"positions resized from {old_grid} to {grid} by {target.position_resize!r}")

    def change(array):
        array = array.reshape(-1, array.shape[-1])
        body = array[old_prefix:]
        if old_grid != grid:
            body = resize_grid(body.reshape(*old_grid, -1), grid, target.position_resize).reshape(-1, array.shape[-1])
        slots = np.zeros((prefix - old_prefix, array.shape[-1]), "float32")
        return np.concatenate([array[:old_prefix], slots, body])[None]

    return change, "; ".join(sentences)


def _fit_bias_table(target, entry, contents) -> Conversion:
    grid = tuple(target.layer.attention.grid)
    source = target.source_grid or table_grid(entry.shape, contents.prefix_tokens)
    if source is None or entry.shape[1:] != target.shape[1:] or target.layer.prefix_tokens != contents.prefix_tokens:
        return None
    sentence = f"relative biases resized from {source} to {grid} as in timm"
    return lambda array: resize_bias_table(array, source, grid), sentence


def _fit_offsets(target, entry) -> Conversion:
    """Find the conversion of the embeddings of the offsets along an axis."""
    if len(entry.shape) != 2 or entry.shape[1:] != target.shape[1:]:
        return None
    sentence = f"relative positions resized from {entry.shape[0]} to {target.shape[0]} offsets as in timm"
    return lambda array: resize_offsets(array, target.shape[0]), sentence


def _fit_side(target, entry) -> Conversion:
    """Find the conversion of the column or row embeddings of a 2-D position embedding."""
    (old, width), (new, wanted) = entry.shape, target.shape
    if width != wanted:
        return None
    method, longer = target.position_resize, max(target.layer.grid)
    sentence = f"positions {target.path.partition('/')[2]} resized from {old} to {new} by {method!r}"
    length = longer if method.endswith("_square") else new
    return lambda array: resize_grid(array[:, None], (length, 1), method)[:new, 0], sentence


def _fit_kernel(target, entry) -> Conversion:
    if len(entry.shape) != 4 or entry.shape[3] != target.shape[3]:
        return None
    size, channels = target.shape[:2], target.shape[2]
    resizes, changes_channels = entry.shape[:2] != size, entry.shape[2] != channels
    other_stem_width = target.path == "embedding/kernel" and entry.shape[2] > 4 and changes_channels
    if (resizes and target.path != "embedding/kernel") or other_stem_width:
        return None
    sentences = []
    if resizes:
        sentences.append(f"patch kernel resampled from {entry.shape[:2]} to {size}")
    if changes_channels:
        how = "summed" if channels == 1 else "repeated and rescaled"
        sentences.append(f"input channels {how} from {entry.shape[2]} to {channels}")
        if hasattr(target.layer, "standardized_kernel"):
            sentences.append("weight standardisation undoes the scale, so that the root's responses change")

    def change(array):
        array = resize_kernel(array, size) if resizes else array
        return resize_channels(array, channels) if changes_channels else array

    return change, "; ".join(sentences)


def _fit_head(target, contents) -> Conversion:
    """Keep the initial values of a classifier of another size."""
    kernel = contents.entries.get("head/kernel")
    if kernel is None or kernel.shape[-1] == target.layer.units:
        return None
    old, new = f"{kernel.shape[-1]} classes", f"{target.layer.units} classes"
    return None, f"the classifier of {old} is ignored; the model's {new} keep their initial values"
