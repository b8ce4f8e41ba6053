"""Draw the predictions of masked patch prediction (appendix B.1.2 of the ViT paper).

B batch, H W C image, P patch height or width, N patches, K corrupted patches.
"""

import os

import keras
import numpy as np

from keras_vit.analysis.capturing import patch_size_in_image
from keras_vit.analysis.plots.style import GREY, canvas, show_image, to_rgb
from keras_vit.layers import PatchEmbedding, PatchPrediction
from keras_vit.models.model_interface import scales_pixels

TITLES = ("original", "corrupted", "predicted", "target")
LEVELS = 8  # per colour channel
MASK_GREY = 0.75  # drawn for the mask token


def predict_masked_patches(
    model: keras.Model, images, share: float = 0.5, mask: float = 0.8, swap: float = 0.1, seed=0
):
    """Corrupt patches of images and predict them with a model of masked patch prediction.

    Args:
        model: `masked.keras` of a workdir.
        images: (B, H, W, C) in the model's input range.
        share: share of the patches that are corrupted.
        mask: share of the corrupted patches that are replaced by the mask token.
        swap: share of the corrupted patches that are replaced by another patch of the image.
        seed: seed of the random choices.

    Returns:
        Four arrays (B, H, W, 3) in [0, 1]. The first has the images, the second the images as the encoder sees them,
        with grey for the mask token. In the third and fourth, the corrupted patches are replaced by the predictions
        and by the targets.

    Raises:
        ValueError: the model does not predict patches.
    """
    layers = {type(layer): layer for layer in model.layers}
    if PatchPrediction not in layers or len(model.inputs) != 3:
        raise ValueError(f"model expected a run's masked.keras, received {model.name!r}, which predicts no patches.")
    target = layers[PatchPrediction].target
    down, across = (int(side) for side in layers[PatchEmbedding].output.shape[1:3])
    images = np.asarray(images, "float32")
    pixels = images / 255 if scales_pixels(model) else (images + 1) / 2
    patch_size = patch_size_in_image(layers[PatchEmbedding], images.shape[1:3], (down, across))
    patches = _to_patches(pixels, down, across, *map(int, patch_size))  # (B, N, P, P, C)
    sources, corrupted = _corrupt(*patches.shape[:2], share, mask, swap, np.random.default_rng(seed))
    predictions = model([images, sources.astype("int32"), corrupted.astype("int32")], training=False)
    predictions = _predicted_pictures(keras.ops.convert_to_numpy(predictions), target, patches.shape[2:])
    seen, predicted, targets = patches.copy(), patches.copy(), patches.copy()
    for image, indices in enumerate(corrupted):
        source = sources[image, indices]
        seen[image, indices] = np.where(
            (source == 0)[:, None, None, None], MASK_GREY, patches[image, np.maximum(source - 1, 0)]
        )
        predicted[image, indices] = predictions[image]
        targets[image, indices] = _target_pictures(patches[image, indices], target)
    return tuple(to_rgb(_to_images(x, down, across), (0, 1)) for x in (patches, seen, predicted, targets))


def _corrupt(batch, count, share, mask, swap, rng):
    """Choose the corrupted patches and their replacements.

    Returns:
        The source of every patch (B, N), 0 for the mask token or i + 1 for patch i, and the indices of the corrupted
        patches (B, K).
    """
    corrupted_count = max(1, round(share * count))
    corrupted = np.sort(np.argsort(rng.random((batch, count)), axis=1)[:, :corrupted_count], axis=1)
    kind = rng.random((batch, corrupted_count))
    others = (corrupted + rng.integers(1, count, (batch, corrupted_count))) % count
    replacements = np.where(kind < mask, 0, np.where(kind < mask + swap, others, corrupted) + 1)
    sources = np.tile(np.arange(1, count + 1), (batch, 1))
    np.put_along_axis(sources, corrupted, replacements, axis=1)
    return sources, corrupted


def plot_masked(model: keras.Model, images, output: str | os.PathLike, **options):
    """Draw images with corrupted patches, as the encoder sees them, as predicted, and the targets.

    Args:
        model: `masked.keras` of a workdir.
        images: (B, H, W, C) in the model's input range, at most a dozen.
        output: path of the PNG file.
        **options: arguments of `predict_masked_patches`.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: the model does not predict patches.
        ImportError: Matplotlib is not installed.
    """
    columns = predict_masked_patches(model, images, **options)
    rows, cell = len(columns[0]), 1.3
    height = cell * columns[0].shape[1] / columns[0].shape[2]
    with canvas(output, (cell * 4.4, rows * (height + 0.08) + 0.75)) as figure:
        grid = figure.subplots(rows, 4, squeeze=False)
        top = 1 - 0.6 / figure.get_size_inches()[1]
        figure.subplots_adjust(left=0.02, right=0.98, bottom=0.01, top=top, wspace=0.06, hspace=0.06)
        for column, (title, pictures) in enumerate(zip(TITLES, columns, strict=True)):
            grid[0, column].set_title(title, fontsize=9, loc="center")
            for row, picture in enumerate(pictures):
                show_image(grid[row, column], picture)
        figure.text(0.02, 0.99, "Masked patch prediction", fontsize=11, weight="bold", va="top")
        figure.text(0.98, 0.99, "grey: the mask token", fontsize=8, color=GREY, va="top", ha="right")
    return figure


def _to_patches(pixels, down, across, height, width):
    """Cut images into patches (B, N, P, P, C). Pixels outside the grid are dropped."""
    batch, _, _, channels = pixels.shape
    pixels = pixels[:, : down * height, : across * width].reshape(batch, down, height, across, width, channels)
    return pixels.transpose(0, 1, 3, 2, 4, 5).reshape(batch, down * across, height, width, channels)


def _to_images(patches, down, across):
    """Join patches to images (B, H, W, C)."""
    batch, _, height, width, channels = patches.shape
    pixels = patches.reshape(batch, down, across, height, width, channels).transpose(0, 1, 3, 2, 4, 5)
    return pixels.reshape(batch, down * height, across * width, channels)


def _predicted_pictures(predictions, target, patch_shape):
    """Convert predictions (B, K, units) to pictures of patches."""
    batch, count = predictions.shape[:2]
    if target == "pixels":
        return (predictions.reshape(batch, count, *patch_shape) + 1) / 2
    channels = patch_shape[2]
    cells = 4 if target == "colours" else 1  # per side of a patch
    classes = predictions.reshape(batch, count, cells, cells, LEVELS**channels).argmax(-1)
    levels = [classes // LEVELS**i % LEVELS for i in reversed(range(channels))]
    return _upsample((np.stack(levels, axis=-1) + 0.5) / LEVELS, patch_shape)


def _target_pictures(patches, target):
    """Convert patches (K, P, P, C) to pictures of their targets."""
    if target == "pixels":
        return patches
    cells = 4 if target == "colours" else 1
    count, height, width, channels = patches.shape
    means = patches.reshape(count, cells, height // cells, cells, width // cells, channels).mean(axis=(2, 4))
    return _upsample((np.clip(np.floor(means * LEVELS), 0, LEVELS - 1) + 0.5) / LEVELS, patches.shape[1:])


def _upsample(colours, patch_shape):
    """Repeat the colours of cells (..., cells, cells, C) over a patch."""
    for axis, side in ((-3, patch_shape[0]), (-2, patch_shape[1])):
        colours = colours.repeat(side // colours.shape[axis], axis=axis)
    return colours
