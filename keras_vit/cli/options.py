"""Options shared by several verbs."""

from pathlib import Path

MODEL_HELP = "a workdir, a .keras file, a file or folder of published weights, or a model's name"


def add_data_options(sub) -> None:
    """Add the options that name the data of a recipe to a verb's parser."""
    sub.add_argument("--recipe", help="recipe with the test data; by default the workdir's")
    sub.add_argument("--data-dir", help="folder of the data; replaces the recipe's directory")


def data_arguments(options) -> tuple[str, ...]:
    """Return the words that repeat the options of `add_data_options` in the next command."""
    named = (("--recipe", getattr(options, "recipe", None)), ("--data-dir", options.data_dir))
    return tuple(word for name, value in named if value for word in (name, value))


def short_name(model: str) -> str:
    """Return a name for the files of a model: the last part of its path without a suffix, or its name."""
    path = Path(model)
    return path.stem if path.is_file() else path.name or "model"


def recipe_of(options):
    """Return the recipe of the options, else the workdir's, else None."""
    from keras_vit.train.recipe.file import load_recipe

    stored = Path(options.model) / "recipe.json"
    path = options.recipe or (stored if stored.is_file() else None)
    return None if path is None else load_recipe(path)
