"""What a run's model is asked, and how far off its answer is."""

from keras_vit.train.evaluate import example_losses
from keras_vit.train.masked import MaskedPatches
from keras_vit.train.recipe import Recipe


class Classification:
    """Classes of images.

    Args:
        recipe: of the run.
    """

    def __init__(self, recipe: Recipe):
        self._loss = recipe.loss

    def inputs(self, images, targets) -> tuple:
        """What the model takes of a batch."""
        return (images,)

    def losses(self, outputs, images, targets):
        """Of each example: (B,)."""
        return example_losses(self._loss, targets, outputs)


def task_of(recipe: Recipe, input_shape: tuple[int, int, int]):
    """The task of a recipe with images of a size."""
    return MaskedPatches(recipe, input_shape) if recipe.masked else Classification(recipe)
