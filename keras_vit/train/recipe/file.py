"""Load recipes from Python files, convert them to and from JSON, and replace single fields."""

import dataclasses
import difflib
import importlib.util
import json
import os
import types
import typing
from pathlib import Path

from keras_vit.train.recipe import Recipe

SHOWN = 8  # names in an error


def load_recipe(path: str | os.PathLike) -> Recipe:
    """Load a recipe from a Python file or a `recipe.json`.

    Args:
        path: `recipes/NAME.py` for the file's `recipe`, `recipes/NAME.py:ROW` for one of the file's `recipes`, or a
            JSON file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file does not define the recipe, or a field is out of range.
    """
    file, colon, row = str(path).partition(".py:")
    path = Path(f"{file}.py" if colon else path)
    if not path.is_file():
        raise FileNotFoundError(f"recipe expected a Python file that defines `recipe`, found none at {str(path)!r}.")
    if path.suffix == ".json":
        return from_json(path.read_text())
    recipes = recipes_in(path)
    if row in recipes:
        return recipes[row]
    some = difflib.get_close_matches(row, recipes, n=5, cutoff=0) if row else list(recipes)
    nearest = ", ".join(some[:SHOWN]) + f" and {len(some) - SHOWN} more" * (len(some) > SHOWN)
    raise ValueError(f"recipe expected one of the {len(recipes)} rows of {path.name} behind a colon, received {row!r}; "
                     f"{'the nearest' if row else 'they'} are {nearest}.")  # fmt: skip


def recipes_in(path: str | os.PathLike) -> dict[str, Recipe]:
    """Return the recipes that a Python file defines: its dict `recipes`, and its `recipe` under the key "".

    Raises:
        ValueError: the file is not a Python file, or does not define recipes.
    """
    path = Path(path)
    spec = importlib.util.spec_from_file_location(f"recipe_{path.stem}", path)
    if spec is None:
        raise ValueError(f"recipe expected a .py or .json file, received {str(path)!r}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recipes = dict(getattr(module, "recipes", {}))
    if hasattr(module, "recipe"):
        recipes[""] = module.recipe
    wrong = [value for value in recipes.values() if not isinstance(value, Recipe)]
    if wrong or not recipes:
        raise ValueError(
            f"recipe expected {str(path)!r} to define `recipe = Recipe(...)`, or several in `recipes`, found "
            f"{wrong[0] if wrong else None!r}."
        )
    return recipes


def to_json(recipe: Recipe) -> str:
    """Return the recipe as indented JSON, with every field."""
    plain = lambda value: value.item()  # noqa: E731 - a NumPy number of a row
    return json.dumps(dataclasses.asdict(recipe), indent=2, default=plain) + "\n"


def from_json(text: str) -> Recipe:
    """Return the recipe that `to_json` wrote.

    Raises:
        ValueError: the text is not JSON, has an unknown field, or a value out of range.
    """
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"recipe expected JSON, received invalid JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise ValueError(f"recipe expected a JSON object, received a {type(fields).__name__}.")
    return _typed(Recipe, fields, "recipe")


def override(recipe: Recipe, settings: list[str]) -> Recipe:
    """Return a recipe with some fields replaced.

    Args:
        recipe: the recipe.
        settings: strings `path.to.field=value` with the value as JSON or plain text: `optimizer.learning_rate=3e-4`,
            `model.variant=ViT_S16`, `model.patch_size=[2, 4]`, `optimizer.clip_norm=null`.

    Raises:
        ValueError: a field does not exist, or a value is out of range.
    """
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"set expected path.to.field=value, received {setting!r}.")
        recipe = _replaced(recipe, path.strip().split("."), _value(text.strip()), path.strip())
    return recipe


def differences(one: Recipe, other: Recipe) -> list[str]:
    """Return the paths of the fields in which two recipes differ."""
    a, b = flat_fields(one), flat_fields(other)
    return sorted(path for path in a.keys() | b.keys() if a.get(path) != b.get(path))


def flat_fields(recipe: Recipe) -> dict:
    """Return the fields of a recipe by path, such as `optimizer.learning_rate`."""
    return _flat(dataclasses.asdict(recipe))


def _flat(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    parts = (_flat(inner, f"{path}.{name}" if path else name) for name, inner in value.items())
    return {inner: leaf for flat in parts for inner, leaf in flat.items()}


def _value(text):
    words = {"None": None, "True": True, "False": False}
    try:
        return words[text] if text in words else json.loads(text)
    except ValueError:
        return text


def _replaced(part, names, value, path):
    hints = _fields(part, names[0], path)
    if len(names) > 1:
        value = _replaced(_part(part, names[0], hints), names[1:], value, path)
    return dataclasses.replace(part, **{names[0]: _typed(hints[names[0]], value, names[0])})


def _part(part, name, hints):
    """Return a part of a recipe; its defaults if it is None and may be set."""
    inner = getattr(part, name)
    kinds = [kind for kind in typing.get_args(hints[name]) if dataclasses.is_dataclass(kind)]
    return kinds[0]() if inner is None and kinds else inner


def _fields(part, name, path):
    """Return the types of the fields of `part`; raise a ValueError unless `name` is one."""
    hints = typing.get_type_hints(type(part)) if dataclasses.is_dataclass(part) else {}
    if name not in hints:
        nearest = difflib.get_close_matches(name, hints, n=3, cutoff=0)
        advice = f"; the nearest are {', '.join(nearest)}" if nearest else ""
        raise ValueError(f"set expected the path of a recipe's field, received {path!r}{advice}.")
    return hints


def _typed(hint, value, name):
    """Convert dicts, lists and ints of JSON to the dataclasses, tuples and floats of a type hint."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    classes = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if classes and isinstance(value, dict):
        chosen = min(classes, key=lambda kind: len(value.keys() - typing.get_type_hints(kind).keys()))
        hints = typing.get_type_hints(chosen)
        unknown = sorted(value.keys() - hints.keys())
        if unknown:
            raise ValueError(f"{name} expected the fields {', '.join(hints)}, received {', '.join(unknown)} as well.")
        needed = [field.name for field in dataclasses.fields(chosen)
                  if field.default is field.default_factory is dataclasses.MISSING]  # fmt: skip
        if not value.keys() >= set(needed):
            raise ValueError(f"{name} expected {', '.join(needed)}, received {', '.join(value) or 'no field'} alone.")
        return chosen(**{key: _typed(hints[key], inner, key) for key, inner in value.items()})
    items = [typing.get_args(kind)[0] for kind in kinds if typing.get_origin(kind) is tuple]
    if items and isinstance(value, list):
        return tuple(_typed(items[0], inner, name) for inner in value)
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        return float(value)
    return value
