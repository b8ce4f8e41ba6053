"""Recipes: frozen dataclasses that say everything a training run does. Reading them needs no TensorFlow."""

from keras_vit.data.augmentations import Augment
from keras_vit.models.variants import BiTVariant, ConvStem, EfficientNetVariant, ResNetStem, Rope, Variant
from keras_vit.train.recipe.inputs import Curriculum, Data, Stage
from keras_vit.train.recipe.masked import Masked
from keras_vit.train.recipe.recipe import Checkpoint, Evaluate, Model, Recipe
from keras_vit.train.recipe.updates import Average, Loss, Optimizer, Schedule

# Without this list `from keras_vit.train.recipe import *` would import the submodules, such as `recipe`.
__all__ = [
    "Augment",
    "Average",
    "BiTVariant",
    "Checkpoint",
    "Curriculum",
    "Data",
    "EfficientNetVariant",
    "Evaluate",
    "Loss",
    "Masked",
    "Model",
    "Optimizer",
    "Recipe",
    "ConvStem",
    "ResNetStem",
    "Rope",
    "Schedule",
    "Stage",
    "Variant",
]
