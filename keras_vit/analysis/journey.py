"""How an image travels through a model: its patches, their embeddings, and what becomes of them layer by layer.

B batch, H W C image, D width, (down, across) grid of patches or of a feature map.
"""

import functools
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.capturing import as_input
from keras_vit.composed import flattened
from keras_vit.models.token_layout import token_layout
from keras_vit.private import output_of


@dataclass(frozen=True)
class Journey:
    """What one batch of images becomes on its way, as `journey` reads it.

    Args:
        images: (B, H, W, C), as the model takes them.
        stages: names of the layers that were looked at, in order.
        maps: of each stage what it puts out, on its grid: (B, down, across, D) float32, prefix tokens left out.
        patch_size: of `patch_size_of` the model.
    """

    images: np.ndarray
    stages: tuple[str, ...]
    maps: tuple[np.ndarray, ...]
    patch_size: tuple[int, int] | None = None

    def norms(self) -> list[np.ndarray]:
        """Length of every token at every stage: (B, down, across) each."""
        return [np.linalg.norm(stage, axis=-1) for stage in self.maps]

    def colours(self) -> list[np.ndarray]:
        """The first three principal components of a stage's tokens as colours: (B, down, across, 3) each, in [0, 1].

        The components are those of all the images' tokens together, so that one colour means one thing in all of
        them; each goes from its 1st percentile to its 99th, and its largest coefficient is positive. Colours of
        different stages have nothing to do with each other.
        """
        return [_stretched(plane, stage) for (plane, _), stage in zip(self._planes, self.maps, strict=True)]

    def explained(self) -> list[float]:
        """Share of each stage's variance that its three colours show, in [0, 1]."""
        return [float(shares.sum()) for _, shares in self._planes]

    @functools.cached_property
    def _planes(self):
        return [principal_components(stage.reshape(-1, stage.shape[-1]), 3) for stage in self.maps]


def journey(model: keras.Model, images, batch_size: int = 32) -> Journey:
    """Follow images through a model: patch embeddings, positions added, every encoder block, the last norm.

    In a hybrid the stem's stages come first; in a BiT they are all there is.

    Args:
        model: a model of this package.
        images: (B, H, W, C) as the model takes them.
        batch_size: images that go through the model at once.

    Raises:
        ValueError: the model has none of these layers, or the images are not of its input shape or range.
    """
    model = flattened(model)
    images = as_input(model, images)
    layers = [layer for layer in model.layers if _is_stage(layer)]
    if not layers:
        raise ValueError(f"model expected one of this package, received {model.name!r} without a known layer.")
    names = [layer.name for layer in layers]
    stages = keras.Model(model.inputs[0], [output_of(model, layer) for layer in layers])
    parts = []
    for start in range(0, len(images), batch_size):
        found = keras.tree.flatten(stages(images[start : start + batch_size], training=False))
        grid = next((x.shape[1:3] for name, x in zip(names, found, strict=True) if name == "embedding"), None)
        part = [ops.convert_to_numpy(ops.cast(x, "float32")) for x in found]
        parts.append([_on_grid(model, name, x, grid) for name, x in zip(names, part, strict=True)])
    maps = tuple(np.concatenate(stage) for stage in zip(*parts, strict=True))
    return Journey(images, tuple(names), maps, patch_size_of(model))


def _on_grid(model, name, outputs, grid):
    """The output of the layer `name` on the grid: maps as they are, tokens (B, N, D) -> (B, down, across, D)."""
    if outputs.ndim == 4:
        return outputs
    patches = outputs[:, token_layout(model, name).patches]
    return patches.reshape(len(outputs), *grid, outputs.shape[-1])


def patch_size_of(model: keras.Model) -> tuple[int, int] | None:
    """Pixels (height, width) of a model's patches where these are cut from the image; None under a stem."""
    layers = {layer.name: layer for layer in flattened(model).layers}
    return None if "stem_root" in layers or "embedding" not in layers else layers["embedding"].patch_size


def principal_components(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows seen from their mean along their first principal axes, of which each points to its largest coefficient.

    Args:
        rows: (N, D).
        count: of the axes.

    Returns:
        (N, count), zeros past the last axis, and the share of the variance along each axis (count,).
    """
    centred = rows.astype("float64") - rows.mean(axis=0, dtype="float64")
    few = centred.shape[0] < centred.shape[1]  # then D x D numbers may be more than memory holds
    spread, axes = np.linalg.eigh(centred @ centred.T if few else centred.T @ centred)  # ascending
    spread, axes = np.maximum(spread[::-1], 0), axes[:, ::-1][:, :count]
    if few:
        axes = centred.T @ axes
        axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-30)
    axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0))
    missing = count - axes.shape[1]
    shares = spread[:count] / max(spread.sum(), 1e-30)
    return np.pad(centred @ axes, [(0, 0), (0, missing)]), np.pad(shares, (0, missing))


def _is_stage(layer):
    """The embedding, what the positions add, the blocks, the last norm, and the stages of a ResNet."""
    unit = "_unit" in layer.name
    stage = layer.name.startswith(("stem_stage", "stage", "encoder_block_")) and not unit
    named = ("embedding", "position_embedding", "encoder_norm", "stem_root_pool", "root_pool")
    return stage or layer.name in named


def _stretched(components, stage):
    low, high = np.percentile(components, [1, 99], axis=0)
    scaled = np.clip((components - low) / np.maximum(high - low, 1e-12), 0, 1)
    return scaled.reshape(*stage.shape[:3], 3)
