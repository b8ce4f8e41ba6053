"""The fields that a sweep varies, and their values."""

import re
from dataclasses import dataclass
from itertools import product

from keras_vit.checks import is_count, require
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.file import override

_RANGE = re.compile(r"([^\s,]+?)\.\.([^\s,]+)")
# Fields that decide which images measure a setting, and how. Other values would not be comparable.
_MEASURE = ("data.source", "data.directory", "data.test_split", "data.train_split", "evaluate.split")
_MEASURE += ("evaluate.metrics", "name")


@dataclass(frozen=True)
class Axis:
    """A field of a recipe and its values: a list, or a range.

    Args:
        field: path of the field, such as `optimizer.learning_rate`.
        values: the values, as texts for `override`; empty for a range.
        low, high: ends of the range.
        whole: whether the range holds ints.
    """

    field: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def is_log(self) -> bool:
        """Whether the range is searched on a logarithmic scale."""
        return self.low > 0 and not self.whole


def parse_axis(text: str, recipe: Recipe) -> Axis:
    """Return the axis of `FIELD=A,B,C` or `FIELD=LOW..HIGH`. Commas inside brackets, braces and quotes do not split.

    Raises:
        ValueError: the field does not exist or cannot be varied, or a value is out of range.
    """
    field, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise ValueError(f"over expected FIELD=A,B,C or FIELD=LOW..HIGH, received {text!r}.")
    if field in _MEASURE or field == "evaluate":
        raise ValueError(f"over expected a field of the training, received {field!r}, which decides how a setting is "
                         "measured or named; set it once, in the recipe or with --set.")  # fmt: skip
    found = _RANGE.fullmatch(values)
    axis = _range(field, *found.groups()) if found else Axis(field, tuple(_split(values)))
    repeated = {value for value in axis.values if axis.values.count(value) > 1}
    require(not repeated, "over", f"every value of {field} once", ", ".join(sorted(repeated)))
    for value in axis.values or (_text(axis, axis.low), _text(axis, axis.high)):
        try:
            override(recipe, [f"{field}={value}"])
        except ValueError as error:
            raise ValueError(f"over: {str(error).replace('set expected', 'expected', 1)}") from None
    return axis


def _range(field: str, low: str, high: str) -> Axis:
    try:
        ends = float(low), float(high)
    except ValueError:
        raise ValueError(f"over expected two numbers around '..' for {field}, received '{low}..{high}'.") from None
    require(ends[0] < ends[1], "over", f"a rising range of {field}", f"{low}..{high}")
    return Axis(field, (), *ends, whole=all(re.fullmatch(r"-?\d+", end) for end in (low, high)))


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets, braces or quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise ValueError(f"over expected a value between two commas, received {text!r}.")
    return parts


def _text(axis: Axis, value: float) -> str:
    return str(int(value)) if axis.whole else f"{value:.4g}"


def texts_of(axes: list[Axis], values: dict) -> dict[str, str]:
    """Return field -> text of a setting whose numbers lie in ranges. Numbers are rounded to four digits."""
    return {axis.field: values[axis.field] if axis.values else _text(axis, values[axis.field]) for axis in axes}


def with_settings(recipe: Recipe, settings: dict[str, str]) -> Recipe:
    """Return a recipe with the values of a setting."""
    return override(recipe, [f"{field}={value}" for field, value in settings.items()])


def combinations(axes: list[Axis]) -> list[dict[str, str]]:
    """Return all settings of lists of values, in the order in which they are given."""
    fields = [axis.field for axis in axes]
    return [dict(zip(fields, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def take_seeds(axes: list[Axis], seeds: tuple[int, ...]) -> tuple[list[Axis], tuple[int, ...]]:
    """Return the axes without `seed`, whose values repeat each setting, and all seeds.

    Raises:
        ValueError: the seeds are a range, or stated twice.
    """
    given = [axis for axis in axes if axis.field == "seed"]
    if given and (seeds or not given[0].values):
        what = "a list of values such as seed=1,2,3" if not seeds else "no seed with --seeds"
        raise ValueError(f"over expected {what}, received seed.")
    seeds = tuple(int(value) for value in given[0].values) if given else seeds
    require(all(is_count(seed, 0) for seed in seeds), "seeds", "ints of at least 0", seeds)
    require(len(set(seeds)) == len(seeds), "seeds", "every seed once", seeds)
    return [axis for axis in axes if axis.field != "seed"], seeds
