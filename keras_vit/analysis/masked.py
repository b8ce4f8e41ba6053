"""What a model of masked patch prediction makes of hidden patches, drawn (appendix B.1.2).

B batch, H W C image, P patch height or width, N patches, K of them hidden.
"""

import os

import keras
import numpy as np

from keras_vit.analysis.capturing import pixels_of_patch
from keras_vit.analysis.plots.style import GREY, canvas, show, visible
from keras_vit.layers import PatchEmbedding, PatchPrediction
from keras_vit.models.model_interface import scales_pixels

TITLES = ("original", "corrupted", "predicted", "what was hidden")
LEVELS = 8
MASK = 0.75  # grey of a place that the mask token stands at


def predict_hidden(model: keras.Model, images, share: float = 0.5, mask: float = 0.8, swap: float = 0.1, seed=0):
    """Hide patches of images, and have a model of masked patch prediction say what they were.

    Args:
        model: `masked.keras` of a run's folder.
        images: (B, H, W, C) as the model takes them.
        share: of the patches that are corrupted.
        mask: share of these that the mask token takes the place of.
        swap: share of these that another patch of the image takes the place of.
        seed: of the draws.

    Returns:
        Four arrays (B, H, W, 3) in [0, 1]: the originals; what the encoder saw, the mask token as grey; the originals
        with what the model says in the places of the corrupted patches; and the same with what it should have said.

    Raises:
        ValueError: the model does not predict patches.
    """
    layers = {type(layer): layer for layer in model.layers}
    if PatchPrediction not in layers or len(model.inputs) != 3:
        raise ValueError(f"model expected a run's masked.keras, received {model.name!r}, which predicts no patches.")
    prediction = layers[PatchPrediction]
    down, across = (int(side) for side in layers[PatchEmbedding].output.shape[1:3])
    scaled = scales_pixels(model)
    images = np.asarray(images, "float32")
    values = images / 255 if scaled else (images + 1) / 2
    size = pixels_of_patch(layers[PatchEmbedding], images.shape[1:3], (down, across))
    patches = _cut(values, down, across, *map(int, size))  # (B, N, P, P, C)
    rng = np.random.default_rng(seed)
    batch, cells = patches.shape[:2]
    count = max(1, round(share * cells))
    places = np.sort(np.argsort(rng.random((batch, cells)), axis=1)[:, :count], axis=1)
    kind = rng.random((batch, count))
    others = (places + rng.integers(1, cells, (batch, count))) % cells
    came = np.where(kind < mask, 0, np.where(kind < mask + swap, others, places) + 1)
    sources = np.tile(np.arange(1, cells + 1), (batch, 1))
    np.put_along_axis(sources, places, came, axis=1)
    said = model([images, sources.astype("int32"), places.astype("int32")], training=False)
    said = _pictures(keras.ops.convert_to_numpy(said), prediction.target, patches.shape[2:])
    seen, guessed, right = patches.copy(), patches.copy(), patches.copy()
    for b in range(batch):
        hidden = places[b]
        seen[b, hidden] = np.where((came[b] == 0)[:, None, None, None], MASK, patches[b, np.maximum(came[b] - 1, 0)])
        guessed[b, hidden] = said[b]
        right[b, hidden] = _asked(patches[b, hidden], prediction.target)
    return tuple(visible(_joined(part, down, across), (0, 1)) for part in (patches, seen, guessed, right))


def plot_masked(model: keras.Model, images, output: str | os.PathLike, **options):
    """Draw images, what the encoder saw of them, and the hidden patches as predicted and as they were.

    Args:
        model: `masked.keras` of a run's folder.
        images: (B, H, W, C) as the model takes them, a dozen or fewer.
        output: where the PNG goes.
        **options: of `predict_hidden`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the model does not predict patches.
        ImportError: Matplotlib is not installed.
    """
    parts = predict_hidden(model, images, **options)
    rows, cell = len(parts[0]), 1.3
    height = cell * parts[0].shape[1] / parts[0].shape[2]
    with canvas(output, (cell * 4.4, rows * (height + 0.08) + 0.75)) as figure:
        grid = figure.subplots(rows, 4, squeeze=False)
        top = 1 - 0.6 / figure.get_size_inches()[1]
        figure.subplots_adjust(left=0.02, right=0.98, bottom=0.01, top=top, wspace=0.06, hspace=0.06)
        for column, (title, pictures) in enumerate(zip(TITLES, parts, strict=True)):
            grid[0, column].set_title(title, fontsize=9, loc="center")
            for row, picture in enumerate(pictures):
                show(grid[row, column], picture)
        figure.text(0.02, 0.99, "Patches hidden from the encoder", fontsize=11, weight="bold", va="top")
        figure.text(0.98, 0.99, "grey: the mask token", fontsize=8, color=GREY, va="top", ha="right")
    return figure


def _cut(values, down, across, p, q):
    """(B, H, W, C) -> (B, N, P, P, C); what the patch does not divide is left out."""
    batch, _, _, channels = values.shape
    values = values[:, : down * p, : across * q].reshape(batch, down, p, across, q, channels)
    return values.transpose(0, 1, 3, 2, 4, 5).reshape(batch, down * across, p, q, channels)


def _joined(patches, down, across):
    batch, _, p, q, channels = patches.shape
    values = patches.reshape(batch, down, across, p, q, channels).transpose(0, 1, 3, 2, 4, 5)
    return values.reshape(batch, down * p, across * q, channels)


def _pictures(said, target, shape):
    """What the model says as pictures of patches: (B, K, units) -> (B, K, P, P, C)."""
    batch, count = said.shape[:2]
    if target == "pixels":
        return (said.reshape(batch, count, *shape) + 1) / 2
    channels = shape[2]
    parts = 4 if target == "colours" else 1
    classes = said.reshape(batch, count, parts, parts, LEVELS**channels).argmax(-1)
    levels = [classes // LEVELS**i % LEVELS for i in reversed(range(channels))]
    return _enlarged((np.stack(levels, axis=-1) + 0.5) / LEVELS, shape)


def _asked(patches, target):
    """What should have been said, as pictures: (K, P, P, C) -> the same shape."""
    if target == "pixels":
        return patches
    parts = 4 if target == "colours" else 1
    count, p, q, channels = patches.shape
    means = patches.reshape(count, parts, p // parts, parts, q // parts, channels).mean(axis=(2, 4))
    return _enlarged((np.clip(np.floor(means * LEVELS), 0, LEVELS - 1) + 0.5) / LEVELS, patches.shape[1:])


def _enlarged(colours, shape):
    """(..., parts, parts, C) -> (..., P, P, C)."""
    for axis, side in ((-3, shape[0]), (-2, shape[1])):
        colours = colours.repeat(side // colours.shape[axis], axis=axis)
    return colours
