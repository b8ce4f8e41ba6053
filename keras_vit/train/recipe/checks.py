"""What a recipe's fields may be."""

import math

from keras_vit.models.variants import BiTVariant, ResNetStem, Variant


def require(valid: bool, name: str, expected: str, received) -> None:
    """Raise a ValueError naming the field unless it is valid."""
    if not valid:
        raise ValueError(f"{name} expected {expected}, received {received!r}.")


def is_number(value, least: float, below: float = math.inf) -> bool:
    """Whether `value` is a number in [least, below)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < below


def is_positive(value) -> bool:
    """Whether `value` is a finite number above 0."""
    return is_number(value, 0) and value > 0


def is_count(value, least: int = 1) -> bool:
    """Whether `value` is an int of at least `least`."""
    return isinstance(value, int) and is_number(value, least)


def is_size(value) -> bool:
    """Whether `value` is a positive int, two of them, or None."""
    if value is None or is_count(value):
        return True
    return isinstance(value, tuple) and len(value) == 2 and all(is_count(side) for side in value)


def sides(size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) of a size, which may be one int for both."""
    return (size, size) if isinstance(size, int) else size


def is_text(value) -> bool:
    """Whether `value` is a string of at least a character, or None."""
    return value is None or (isinstance(value, str) and value != "")


def is_pair(value) -> bool:
    """Whether `value` is RandAugment's (operations, magnitude): a positive int, and a number of 0 to 30."""
    return isinstance(value, tuple) and len(value) == 2 and is_count(value[0]) and is_number(value[1], 0, 30.001)


def require_row(row: Variant | BiTVariant) -> None:
    """Raise a ValueError naming the field of a row that is of another kind than models are built of."""

    def check(part, names, valid, expected):
        for name in names:
            require(valid(getattr(part, name)), name, expected, getattr(part, name))

    check(row, ["name"], lambda value: isinstance(value, str) and value != "", "a name")
    check(row, ["image_size"], is_count, "a positive int")
    check(row, ["axial"], lambda value: isinstance(value, bool), "true or false")
    if isinstance(row, Variant):
        check(row, ["width", "depth", "mlp_dim", "num_heads"], is_count, "a positive int")
        check(row, ["patch_size"], lambda value: value is not None and is_size(value), "a positive int or "
              "(height, width)")  # fmt: skip
        check(row, ["mlp_kernel_size"], lambda value: is_count(value, 0), "an odd int, or 0")
        check(row, ["positions", "positions_at"], lambda value: isinstance(value, str), "a name")
        require(row.stem is None or isinstance(row.stem, ResNetStem), "stem", "ResNetStem(...) or null", row.stem)
    resnet = row.stem if isinstance(row, Variant) else row
    if resnet is not None:
        counts = isinstance(resnet.units, tuple) and all(map(is_count, resnet.units))
        require(counts, "units", "a tuple of positive ints", resnet.units)
        check(resnet, ["width_factor", "weight_epsilon"], is_positive, "a positive number")
