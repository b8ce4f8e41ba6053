"""The outputs of a model's layers for some images: patch embeddings, position embeddings, blocks, the last norm.

B batch, H W C image, N tokens, D width, (down, across) grid of patches or of a feature map.
"""

import functools
from dataclasses import dataclass

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input, split_batches, to_float32
from keras_vit.analysis.principal_components import principal_components
from keras_vit.composed import flattened
from keras_vit.models.token_layout import token_layout
from keras_vit.private import output_of


@dataclass(frozen=True)
class LayerOutputs:
    """The outputs of a model's layers for a batch of images, as `layer_outputs` returns them.

    Args:
        images: (B, H, W, C) in the model's input range.
        layers: names of the layers, in order.
        maps: output of each layer on its grid, (B, down, across, D). Prefix tokens are dropped.
        patch_size: (height, width) of a patch in pixels; None with a stem, or without patches.
    """

    images: np.ndarray
    layers: tuple[str, ...]
    maps: tuple[np.ndarray, ...]
    patch_size: tuple[int, int] | None = None

    def norms(self) -> list[np.ndarray]:
        """Return the norm of every token, (B, down, across) per layer."""
        return [np.linalg.norm(output, axis=-1) for output in self.maps]

    def colours(self) -> list[np.ndarray]:
        """Return the first three principal components of each layer as colours (B, down, across, 3) in [0, 1].

        The components are computed over the tokens of all images, so that colours are comparable between images but
        not between layers. Each component is scaled from its 1st to its 99th percentile.
        """
        return [
            _as_colours(projection).reshape(*output.shape[:3], 3)
            for (projection, _), output in zip(self._components, self.maps, strict=True)
        ]

    def explained_variance(self) -> list[float]:
        """Return the share of each layer's variance in its three components, in [0, 1]."""
        return [float(shares.sum()) for _, shares in self._components]

    @functools.cached_property
    def _components(self):
        return [principal_components(output.reshape(-1, output.shape[-1]), 3) for output in self.maps]


def layer_outputs(model: keras.Model, images, batch_size: int = 32) -> LayerOutputs:
    """Return the outputs of the patch embedding, position embedding, encoder blocks and last norm.

    A hybrid also has the stages of its stem. A BiT has its stages only.

    Args:
        model: a model of this package.
        images: (B, H, W, C) in the model's input range.
        batch_size: images per forward pass.

    Raises:
        ValueError: the model has none of these layers, or the images do not have its input shape or range.
    """
    model = flattened(model)
    images = as_model_input(model, images)
    layers = [layer for layer in model.layers if _is_shown(layer.name)]
    if not layers:
        raise ValueError(f"model expected one of this package, received {model.name!r} without a known layer.")
    names = [layer.name for layer in layers]
    forward = keras.Model(model.inputs[0], [output_of(model, layer) for layer in layers])
    maps_of_batches = []
    for batch in split_batches(images, batch_size):
        outputs = keras.tree.flatten(forward(batch, training=False))
        grid = next((x.shape[1:3] for name, x in zip(names, outputs, strict=True) if name == "embedding"), None)
        maps_of_batches.append(
            [_on_grid(model, name, to_float32(x), grid) for name, x in zip(names, outputs, strict=True)]
        )
    maps = tuple(np.concatenate(batches) for batches in zip(*maps_of_batches, strict=True))
    return LayerOutputs(images, tuple(names), maps, patch_size_of(model))


def _on_grid(model, name, outputs, grid):
    """Reshape tokens (B, N, D) of the layer `name` to (B, down, across, D). Return maps unchanged."""
    if outputs.ndim == 4:
        return outputs
    patches = outputs[:, token_layout(model, name).patches]
    return patches.reshape(len(outputs), *grid, outputs.shape[-1])


def patch_size_of(model: keras.Model) -> tuple[int, int] | None:
    """Return (height, width) of a model's patches in pixels; None with a stem, or without patches."""
    layers = {layer.name: layer for layer in flattened(model).layers}
    return None if "stem_root" in layers or "embedding" not in layers else layers["embedding"].patch_size


def _is_shown(name):
    if name in ("embedding", "position_embedding", "encoder_norm", "neck_norm2", "stem_root_pool", "root_pool"):
        return True
    return name.startswith(("stem_stage", "stage", "encoder_block_")) and "_unit" not in name


def _as_colours(components):
    low, high = np.percentile(components, [1, 99], axis=0)
    return np.clip((components - low) / np.maximum(high - low, 1e-12), 0, 1)
