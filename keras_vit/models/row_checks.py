"""Check rows, and the options of the builders that depend on each other. Builders and recipes call these checks."""

import typing
from dataclasses import fields, is_dataclass
from types import UnionType

from keras_vit.checks import is_positive, is_text, is_whole, require
from keras_vit.models.variants import AnyVariant, Variant

POSITIONS = ("learned", "1d", "2d", "relative", "none", "sincos2d")
PLACES = ("stem", "layers", "shared")
POOLINGS = ("token", "gap", "map", None)
_CHOICES = {"positions": POSITIONS, "positions_at": PLACES}
# Type of a field -> a check of the value, and the words of the error.
_TYPES = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (is_whole, "a positive int"),
    float: (is_positive, "a positive number"),
    float | None: (is_positive, "a positive number or null"),
    str: (lambda value: isinstance(value, str) and value != "", "a name"),
    str | None: (is_text, "a name or null"),
    tuple[int, ...]: (lambda value: isinstance(value, tuple) and all(map(is_whole, value)), "a tuple of positive ints"),
    int | tuple[int, int]: (lambda value: is_whole(value) or _is_pair(value), "a positive int or (height, width)"),
}
_SPECIAL = {"mlp_kernel_size": (lambda value: is_whole(value) and value % 2, "an odd int, or 0")}


def _is_pair(value) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(is_whole, value))


def require_row(row: AnyVariant) -> None:
    """Raise a ValueError unless each field of a row has its default or a value of its type.

    A field of a new type needs an entry in `_TYPES`; a field of a known type needs nothing here.
    """
    for field in fields(row):
        value = getattr(row, field.name)
        if kind := _dataclass_in(field.type):
            require(value is None or isinstance(value, kind), field.name, f"{kind.__name__}(...) or null", value)
            if value is not None and field.name != "parameters":
                require_row(value)
            continue
        valid, expected = _SPECIAL.get(field.name) or _TYPES[field.type]
        is_default = type(value) is type(field.default) and value == field.default
        require(is_default or valid(value), field.name, expected, value)
        choices = _CHOICES.get(field.name)
        require(not choices or value in choices, field.name, f"one of {choices}", value)


def _dataclass_in(hint):
    """Return the dataclass of a type hint `Kind | None`, or None for other hints."""
    kinds = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return next((kind for kind in kinds if is_dataclass(kind)), None)


def check_row(variant: Variant, prefix: dict[str, int], free: bool) -> None:
    """Raise a ValueError unless a row is valid and fits the other options of its builder.

    Args:
        variant: the row.
        prefix: number of tokens of each kind in front of the patches.
        free: whether the image size is free at run time.
    """
    require_row(variant)
    if variant.positions in ("none", "relative") and variant.positions_at != "stem":
        raise ValueError(f"positions_at expected 'stem' with positions={variant.positions!r}, which are added nowhere, "
                         f"received {variant.positions_at!r}.")  # fmt: skip
    if variant.positions == "relative" and free:
        raise ValueError("input_shape expected a known size with positions='relative', which are stored for one, "
                         "received a free one.")  # fmt: skip
    if not variant.prefix_positions and variant.positions not in ("learned", "1d"):
        raise ValueError("prefix_positions expected True unless positions are 'learned' or '1d', received False with "
                         f"positions={variant.positions!r}.")  # fmt: skip
    if variant.axial and variant.registers:
        raise ValueError(f"registers expected 0 with axial blocks, which have no place for them, received "
                         f"{variant.registers}.")  # fmt: skip
    if variant.axial and any(prefix.values()):
        raise ValueError("pooling expected 'gap' or 'map' without a class token, for which axial blocks have no place, "
                         "received one.")  # fmt: skip


def check_pooling(variant, pooling, has_head, class_token, norm_after_pooling) -> None:
    """Raise a ValueError unless the row is a ViT's, and `pooling` fits the other options of its builder."""
    if not isinstance(variant, Variant):
        raise ValueError(f"variant expected a keras_vit.Variant, received {variant!r}.")
    if pooling not in POOLINGS:
        raise ValueError(f"pooling expected one of {POOLINGS}, received {pooling!r}.")
    if pooling is None and has_head:
        raise ValueError("pooling expected one of ('token', 'gap', 'map') under a classifier, received None.")
    if class_token is False and pooling == "token":
        raise ValueError("class_token expected True or None with pooling='token', received False.")
    if pooling == "map" and variant.registers:
        raise ValueError("pooling expected 'token', 'gap' or None with registers, which attention pooling would pool, "
                         "received 'map'.")  # fmt: skip
    if norm_after_pooling and pooling is None:
        raise ValueError("norm_after_pooling expected False with pooling=None, received True.")


def check_convnet_row(variant, kind: type, include_top: bool, pooling: str | None) -> None:
    """Raise a ValueError unless the row is a valid one of a kind of `ConvNet`, and `pooling` fits `include_top`."""
    if not isinstance(variant, kind):
        raise ValueError(f"variant expected a keras_vit.{kind.__name__}, received {variant!r}.")
    require_row(variant)
    if pooling not in ("gap", None):
        raise ValueError(f"pooling expected one of ('gap', None), received {pooling!r}.")
    if pooling is None and include_top:
        raise ValueError("pooling expected 'gap' under a classifier, received None.")
