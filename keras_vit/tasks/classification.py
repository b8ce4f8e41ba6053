"""Classification: the inputs and the per-example losses of a batch."""

from keras_vit.evaluate.losses import NO_TERMS, ClassTerms, example_losses
from keras_vit.train.recipe import Recipe


class Classification:
    """Predict the classes of images. `terms` come from `class_terms` of the recipe's loss."""

    def __init__(self, recipe: Recipe, terms: ClassTerms = NO_TERMS):
        self._loss, self._terms = recipe.loss, terms

    def inputs(self, images, targets) -> tuple:
        """Return the model's inputs for a batch."""
        return (images,)

    def losses(self, outputs, images, targets):
        """Return the loss of each example: (B,)."""
        return example_losses(self._loss, targets, outputs, self._terms)
