"""Regression: the inputs, the per-example losses and the metrics of values in units."""

from keras_vit.evaluate.losses import ClassTerms
from keras_vit.evaluate.regression import regression_losses
from keras_vit.train.recipe import Recipe


class Regression:
    """Predict the values of images. `terms` come from `class_terms` of the recipe's loss."""

    def __init__(self, recipe: Recipe, terms: ClassTerms):
        self._loss, self._terms = recipe.loss, terms

    def inputs(self, images, targets) -> tuple:
        """Return the model's inputs for a batch."""
        return (images,)

    def losses(self, outputs, images, targets):
        """Return the loss of each example: (B,)."""
        return regression_losses(self._loss, targets, outputs, self._terms.deviation)
