"""Tasks: what a model receives of a batch, and the loss of each example."""

from keras_vit.tasks.classification import Classification
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train.recipe import Recipe


def task_of(recipe: Recipe, input_shape: tuple[int, int, int]) -> Classification | MaskedPatches:
    """Return the task of a recipe for images of a shape, (height, width, channels)."""
    return MaskedPatches(recipe, input_shape) if recipe.masked else Classification(recipe)
