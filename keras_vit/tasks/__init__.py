"""Tasks: what a model receives of a batch, and the loss of each example."""

from keras_vit.evaluate.losses import NO_TERMS, ClassTerms
from keras_vit.tasks.classification import Classification
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.tasks.regression import Regression
from keras_vit.train.recipe import Recipe


def task_of(
    recipe: Recipe, input_shape: tuple[int, int, int], terms: ClassTerms = NO_TERMS
) -> Classification | Regression | MaskedPatches:
    """Return the task of a recipe for images of a shape, (height, width, channels).

    `terms` are those of the recipe's loss per class, from `keras_vit.evaluate.losses.class_terms`.
    """
    if recipe.masked:
        return MaskedPatches(recipe, input_shape)
    return Regression(recipe, terms) if recipe.loss.is_regression else Classification(recipe, terms)
