"""Classification: the inputs and the per-example losses of a batch."""

from keras_vit.evaluate.accuracy import example_losses
from keras_vit.train.recipe import Recipe


class Classification:
    """Predict the classes of images."""

    def __init__(self, recipe: Recipe):
        self._loss = recipe.loss

    def inputs(self, images, targets) -> tuple:
        """Return the model's inputs for a batch."""
        return (images,)

    def losses(self, outputs, images, targets):
        """Return the loss of each example: (B,)."""
        return example_losses(self._loss, targets, outputs)
