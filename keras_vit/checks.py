"""Checks of the values that users set, of recipes and rows."""

import math
import numbers


def require(valid: bool, name: str, expected: str, received) -> None:
    """Raise a ValueError naming the field unless it is valid."""
    if not valid:
        raise ValueError(f"{name} expected {expected}, received {received!r}.")


def is_number(value, least: float, below: float = math.inf) -> bool:
    """Return whether `value` is a number in [least, below)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < below


def is_positive(value) -> bool:
    """Return whether `value` is a finite number above 0."""
    return is_number(value, 0) and value > 0


def is_count(value, least: int = 1) -> bool:
    """Return whether `value` is an int of at least `least`."""
    return isinstance(value, int) and is_number(value, least)


def is_whole(value) -> bool:
    """Return whether `value` is a whole number of at least 1, of Python or of NumPy."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= 1


def is_size(value) -> bool:
    """Return whether `value` is a positive int, two of them, or None."""
    if value is None or is_count(value):
        return True
    return isinstance(value, tuple) and len(value) == 2 and all(is_count(side) for side in value)


def sides(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of a size, which may be one int for both."""
    return (size, size) if isinstance(size, int) else size


def is_text(value) -> bool:
    """Return whether `value` is a string of at least a character, or None."""
    return value is None or (isinstance(value, str) and value != "")
