"""The order of a model's tokens: the tokens in front of the patches, and the grid of the patches.

Only this file knows the order. Builders, readers and tools ask it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import keras

from keras_vit.composed import flattened
from keras_vit.layers import PatchEmbedding, Prompts
from keras_vit.layers.embedding import ClassToken, PrefixTokens
from keras_vit.layers.prefix_layers import PREFIX_LAYERS
from keras_vit.private import output_of


@dataclass(frozen=True)
class TokenLayout:
    """The tokens of a sequence: the prefix, then the patches row by row.

    Args:
        prefix: names of the tokens in front of the patches, in order: `("class",)` or `()`.
        grid: (height, width) in patches. A side is None if the image size is free; `grid` is None if both are.
    """

    prefix: tuple[str, ...] = ()
    grid: tuple[int | None, int | None] | None = None

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens in front of the patches."""
        return len(self.prefix)

    @property
    def class_token(self) -> int | None:
        """Index of the class token; None if there is none."""
        return self.prefix.index(ClassToken.kind) if ClassToken.kind in self.prefix else None

    @property
    def patches(self) -> slice:
        """The patch tokens, as a slice of the sequence."""
        return slice(self.prefix_tokens, None)


def _token_names(layer: PrefixTokens | Prompts) -> tuple[str, ...]:
    """Return the names of the tokens of a layer in order: the kind, with a number if there are several."""
    return (layer.kind,) if layer.count == 1 else tuple(f"{layer.kind}_{i}" for i in range(layer.count))


def token_layout(model: keras.Model, layer: str | None = None) -> TokenLayout:
    """Return the tokens in front of a model's patch tokens, and the grid of the patches.

    Args:
        model: a ViT of this package, or a Keras model with one inside.
        layer: name of the layer whose output is described. The default is the last encoder block.

    Returns:
        A `TokenLayout`, for instance `TokenLayout(prefix=("class",), grid=(14, 14))`.

    Raises:
        ValueError: the model has no patch tokens, or no layer of that name.
    """
    model = flattened(model)
    if not has_patches(model):
        raise ValueError(f"model expected a ViT with patch tokens, received {model.name!r}.")
    names = [known.name for known in model.layers]
    if layer is not None and layer not in names:
        raise ValueError(f"layer expected one of {model.name}'s layers {names}, received {layer!r}.")
    before = model.layers if layer is None else model.layers[: names.index(layer) + 1]
    prefix: tuple[str, ...] = ()
    for known in before:
        if isinstance(known, PrefixTokens):
            prefix = _token_names(known) + prefix
        elif isinstance(known, Prompts) and not known.replace:
            prefix = prefix + _token_names(known)
    embedding = [known for known in model.layers if isinstance(known, PatchEmbedding)][-1]
    patches = output_of(model, embedding).shape  # (B, N, D) in padded sequences, which have no common grid
    grid = tuple(patches[1:3]) if len(patches) == 4 else (None, None)
    return TokenLayout(prefix, None if grid == (None, None) else grid)


def has_patches(model: keras.Model) -> bool:
    """Return whether a flat model embeds patches, as a ViT does and a BiT does not."""
    return any(isinstance(layer, PatchEmbedding) for layer in model.layers)


def add_prefix(tokens, counts: Mapping[str, int], policy):
    """Call the layers that put tokens in front of the patches.

    Args:
        tokens: the patch tokens (B, N, D).
        counts: name in `PREFIX_LAYERS` -> number of tokens; 0 leaves the layer out.
        policy: dtype policy of the layers.

    Returns:
        The sequence (B, prefix + N, D) and the names of the prefix.
    """
    prefix: tuple[str, ...] = ()
    for name, kind in PREFIX_LAYERS.items():
        if counts.get(name):
            layer = kind(counts[name], name=name, dtype=policy)
            tokens, prefix = layer(tokens), _token_names(layer) + prefix
    return tokens, prefix


def prefix_counts(variant, **counts: int) -> dict[str, int]:
    """Return the number of tokens of each kind in `PREFIX_LAYERS`, from the builder's options or the row's fields."""
    return {name: int(counts.get(name, getattr(variant, name, 0))) for name in PREFIX_LAYERS}
