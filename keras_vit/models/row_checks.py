"""Check rows, and the options of the builders that depend on each other. Builders and recipes call these checks."""

import typing
from dataclasses import fields, is_dataclass
from types import UnionType

from keras_vit.checks import is_count, is_positive, is_text, is_whole, require
from keras_vit.models.variants import AnyVariant, BiTVariant, Variant
from keras_vit.weights import require_classes

POSITIONS = ("learned", "1d", "2d", "factorized", "relative", "none", "sincos2d", "sincos2d_mae")
PLACES = ("stem", "layers", "shared")
POOLINGS = ("token", "gap", "map", None)
NORMS = ("layer", "rms")
MAP_NORMS = ("group", "batch", "evo")
_CHOICES = {"positions": POSITIONS, "positions_at": PLACES, "norm": NORMS, "pooling": POOLINGS}
_CHOICES |= {"qkv_bias": ("qkv", "qv", "none"), "relative_bias": (None, "table", "mlp", "shared_mlp", "decomposed")}
_CHOICES |= {"block": ("pre_norm", "post_norm", "parallel", "attention_scale")}
_CHOICES |= {"coordinates": ("cells", "centers"), "order": ("yx", "xy"), "pairs": ("neighbours", "halves")}
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
_SPECIAL = {
    "mlp_kernel_size": (lambda value: is_whole(value) and value % 2, "an odd int, or 0"),
    "jitter": (lambda value: is_positive(value) and value >= 1, "a number of at least 1, or null"),
    "rescale": (lambda value: is_positive(value) and value >= 1, "a number of at least 1, or null"),
    "global_blocks": (lambda value: _are_counts(value) and len(set(value)) == len(value), "a tuple of block numbers"),
    "neck": (lambda value: _are_counts((value,)), "a positive int, 0 or null"),
    "reference_grid": (lambda value: isinstance(value, tuple) and _is_pair(value), "(height, width) or null"),
}


def _is_pair(value) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(is_whole, value))


def _are_counts(values) -> bool:
    return isinstance(values, tuple) and all(is_whole(value) or is_count(value, 0) for value in values)


def require_row(row: AnyVariant) -> None:
    """Raise a ValueError unless each field of a row has its default or a value of its type.

    A field of a new type needs an entry in `_TYPES`; a field of a known type needs nothing here.
    """
    for field in fields(row):
        value = getattr(row, field.name)
        if kinds := _dataclasses_in(field.type):
            expected = f"{', '.join(f'{kind.__name__}(...)' for kind in kinds)} or null"
            require(value is None or isinstance(value, kinds), field.name, expected, value)
            if value is not None and field.name != "parameters":
                require_row(value)
            continue
        valid, expected = _SPECIAL.get(field.name) or _TYPES[field.type]
        is_default = type(value) is type(field.default) and value == field.default
        require(is_default or valid(value), field.name, expected, value)
        choices = MAP_NORMS if (field.name, type(row)) == ("norm", BiTVariant) else _CHOICES.get(field.name)
        require(not choices or value in choices, field.name, f"one of {choices}", value)


def _dataclasses_in(hint) -> tuple:
    """Return the dataclasses of a type hint such as `Kind | None`."""
    kinds = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(kind for kind in kinds if is_dataclass(kind))


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
    if variant.mlp_kernel_size and (variant.gated_mlp or variant.mlp_inner_norm or not variant.dense_bias):
        raise ValueError("mlp_kernel_size expected 0 with gated_mlp, mlp_inner_norm or dense_bias=False, received "
                         f"{variant.mlp_kernel_size}.")  # fmt: skip
    if prefix["distillation_token"] and not prefix["class_token"]:
        raise ValueError("class_token expected True with a distillation token, whose classifier reads both, received "
                         "False.")  # fmt: skip
    if variant.axial and variant.registers:
        raise ValueError(f"registers expected 0 with axial blocks, which have no place for them, received "
                         f"{variant.registers}.")  # fmt: skip
    check_attention_options(variant, sum(prefix.values()), free)
    check_blocks(variant)
    check_windows(variant, any(prefix.values()), free)
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
    if pooling == "map" and (variant.gated_mlp or variant.norm != "layer"):
        raise ValueError("pooling expected 'token', 'gap' or None with gated_mlp or norm='rms', which attention "
                         "pooling does not have, received 'map'.")  # fmt: skip
    if pooling in ("gap", "map") and variant.distillation_token:
        raise ValueError("pooling expected 'token' or None with a distillation token, whose classifier reads class and "
                         f"distillation token, received {pooling!r}.")  # fmt: skip
    if variant.neck is not None and (pooling == "map" or norm_after_pooling):
        raise ValueError("pooling expected 'gap' or None with a neck, and norm_after_pooling False, received "
                         f"{pooling!r} and {norm_after_pooling}.")  # fmt: skip
    if norm_after_pooling and (pooling is None or not variant.final_norm):
        raise ValueError("norm_after_pooling expected False with pooling=None or a row without a final norm, received "
                         "True.")  # fmt: skip


def check_convnet_row(variant, kind: type, include_top: bool, pooling: str | None) -> None:
    """Raise a ValueError unless the row is a valid one of a kind of `ConvNet`, and `pooling` fits `include_top`."""
    if not isinstance(variant, kind):
        raise ValueError(f"variant expected a keras_vit.{kind.__name__}, received {variant!r}.")
    require_row(variant)
    if pooling not in ("gap", None):
        raise ValueError(f"pooling expected one of ('gap', None), received {pooling!r}.")
    if pooling is None and include_top:
        raise ValueError("pooling expected 'gap' under a classifier, received None.")


def check_attention_options(variant: Variant, prefix_tokens: int, free: bool) -> None:
    """Raise a ValueError unless the options of a row's attention and MLP fit the other fields and the image size."""
    options = {"rope": None, "qkv_bias": "qkv", "relative_bias": None, "attention_inner_norm": False}
    options |= {"gated_mlp": False, "mlp_inner_norm": False, "dense_bias": True, "attention_out_bias": True}
    options |= {"window": 0, "neck": None, "block": "pre_norm", "qk_norm": False}
    options |= {"heads_per_key": 1, "differential_attention": False}
    changed = [name for name, usual in options.items() if getattr(variant, name) != usual]
    if variant.axial and changed:
        raise ValueError(f"{changed[0]} expected {options[changed[0]]!r} with axial blocks, received "
                         f"{getattr(variant, changed[0])!r}.")  # fmt: skip
    size = variant.width // variant.num_heads
    if variant.rope and size % 4:
        raise ValueError(f"rope expected heads of a width that is a multiple of 4, received {size}.")
    if variant.relative_bias and free:
        raise ValueError("input_shape expected a known size with relative_bias, which is stored for one, received a "
                         "free one.")  # fmt: skip
    if variant.relative_bias == "table" and prefix_tokens > 1:
        raise ValueError(f"relative_bias expected 'mlp' or None with {prefix_tokens} tokens in front of the patches, "
                         "of which a table has biases for one, received 'table'.")  # fmt: skip


def check_blocks(variant: Variant) -> None:
    """Raise a ValueError unless the kind of a row's blocks and the options of its attention fit each other."""
    if variant.block == "post_norm" and variant.layer_scale is not None:
        raise ValueError(f"layer_scale expected None with block='post_norm', received {variant.layer_scale}.")
    if variant.heads_per_key < 1 or variant.num_heads % variant.heads_per_key:
        raise ValueError(f"heads_per_key expected a divisor of num_heads={variant.num_heads}, received "
                         f"{variant.heads_per_key}.")  # fmt: skip
    excluded = {"rope": None, "relative_bias": None, "qk_norm": False}
    found = [name for name, usual in excluded.items() if getattr(variant, name) != usual]
    if variant.differential_attention and (found or variant.positions == "relative"):
        others = ", ".join(found) or "relative positions"
        raise ValueError("differential_attention expected False with rope, relative_bias, qk_norm or "
                         f"positions='relative', received True with {others}.")  # fmt: skip
    if variant.differential_attention and variant.width // variant.num_heads % 2:
        raise ValueError(f"differential_attention expected heads of an even width, received "
                         f"{variant.width // variant.num_heads}.")  # fmt: skip
    if variant.relative_bias == "shared_mlp" and variant.mlp_kernel_size:
        raise ValueError("mlp_kernel_size expected 0 with relative_bias='shared_mlp', which takes the place of the "
                         f"patches, received {variant.mlp_kernel_size}.")  # fmt: skip


def takes_prefix(variant: Variant) -> bool:
    """Return whether a row's blocks take tokens in front of the patches."""
    of_grid = variant.axial or variant.window or variant.neck is not None
    return not of_grid and variant.relative_bias != "decomposed"


def check_axial_fields(variant: Variant, left_out: set[str]) -> None:
    """Raise a ValueError unless the fields that axial blocks do not have are at their defaults."""
    for field in fields(variant):
        received = getattr(variant, field.name)
        if field.name in left_out and received != field.default:
            raise ValueError(f"{field.name} expected {field.default} with axial blocks, received {received}.")


def check_windows(variant: Variant, has_prefix: bool, free: bool) -> None:
    """Raise a ValueError unless the windows and the neck of a row fit the other fields and the image size."""
    if not variant.axial and has_prefix and not takes_prefix(variant):
        raise ValueError("pooling expected 'gap' or None without a class token or registers, for which windows, a neck "
                         "and decomposed positions have no place, received some.")  # fmt: skip
    if free and (variant.window or variant.neck is not None):
        raise ValueError("input_shape expected a known size with window or neck, received a free one.")
    excluded = {"rope": variant.rope, "differential_attention": variant.differential_attention}
    excluded |= {"relative_bias": variant.relative_bias not in (None, "decomposed")}
    excluded |= {"relative positions": variant.positions == "relative"}
    if variant.window and (found := [name for name, value in excluded.items() if value]):
        raise ValueError(f"window expected 0 with {found[0]}, received {variant.window}.")
    others = [i for i in variant.global_blocks if not variant.window or i >= variant.depth]
    if others:
        raise ValueError(f"global_blocks expected numbers of the {variant.depth} blocks beside a window, received "
                         f"{others} with window={variant.window}.")  # fmt: skip


def check_classes(include_top: bool, classes: int, weights) -> None:
    """Raise a ValueError unless `classes` is the number of classes of the classifier and of the file."""
    if include_top and (not isinstance(classes, int) or classes < 1):
        raise ValueError(f"classes expected a positive int, received {classes!r}.")
    if include_top and weights is not None:
        require_classes(weights, classes)
