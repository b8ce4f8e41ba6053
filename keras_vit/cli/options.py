"""Options shared by several verbs."""

from pathlib import Path

MODEL_HELP = "a workdir, a .keras file, a file or folder of published weights, or a model's name"


def add_data_options(sub) -> None:
    """Add the options that name the data of a recipe to a verb's parser."""
    sub.add_argument("--recipe", help="recipe with the test data; by default the workdir's")
    sub.add_argument("--data-dir", help="folder of the data; replaces the recipe's directory")


def recipe_of(options):
    """Return the recipe of the options, else the workdir's, else None."""
    from keras_vit.train.recipe.file import load_recipe

    stored = Path(options.model) / "recipe.json"
    path = options.recipe or (stored if stored.is_file() else None)
    return None if path is None else load_recipe(path)
