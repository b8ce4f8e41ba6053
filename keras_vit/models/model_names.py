"""Find the model that a user names by a path, a name or a weights tag, without loading it. Keras is not imported."""

import os
from pathlib import Path

from keras_vit.models.variants import AnyVariant, Variant, find_variant
from keras_vit.weights import holds_weights, is_keras_model, is_weights
from keras_vit.weights.catalogue import find_released
from keras_vit.weights.complete_config import is_published
from keras_vit.weights.released import Released


def released_tag(variant: AnyVariant, tag: str) -> str:
    """Return the tag of `list_weights()` for a row and the tag after the dot of a model's name.

    Raises:
        ValueError: no weights are published for the row.
    """
    if variant.timm_name is None:
        raise ValueError(f"weights expected None for {variant.name}, which has no published weights, received {tag!r}.")
    size = f"_{variant.image_size}" if isinstance(variant, Variant) else ""
    return f"{variant.timm_name}{size}.{tag}"


def find_named(name: str) -> tuple[AnyVariant, Released | None]:
    """Return the row of a model's name, and the published file if a weights tag follows the name's dot.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
    variant, tag = find_variant(name)
    return variant, None if tag is None else find_released(released_tag(variant, tag))


def holds_model(folder: str | os.PathLike) -> bool:
    """Return whether a folder holds a file that `load_model` can read."""
    return holds_weights(Path(folder))


def require_trained(source: str | os.PathLike) -> None:
    """Raise a ValueError for a name without a weights tag, which would mean untrained weights."""
    path = Path(source)
    if is_published(source) or path.exists() or is_keras_model(path) or is_weights(path):
        return
    if find_source(source)[1] is None:
        raise ValueError(f"model expected trained weights, received the name {str(source)!r}, which has fresh ones.")


def find_source(source: str | os.PathLike):
    """Return the result of `find_named` for a source that is not a path.

    Raises:
        ValueError: the source is a URL, or no model has this name.
    """
    if "://" in str(source):
        raise ValueError(f"model expected a local path, one that is mounted, or a name, received {str(source)!r}.")
    try:
        return find_named(str(source))
    except ValueError as error:
        raise ValueError(f"nothing lies at {str(source)!r}, and as a name it is unknown: {error}") from None
