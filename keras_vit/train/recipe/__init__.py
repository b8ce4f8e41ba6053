"""Recipes: frozen dataclasses that say everything a training run does. Reading them needs no TensorFlow."""

from keras_vit.data.augmentations import Augment
from keras_vit.models.adapt_settings import Adapt
from keras_vit.models.variants import BiTVariant, ConvStem, EfficientNetVariant, ResNetStem, Rope, Variant
from keras_vit.train.recipe.inputs import Curriculum, Data, Stage
from keras_vit.train.recipe.masked import Masked
from keras_vit.train.recipe.recipe import Checkpoint, Evaluate, Model, Recipe
from keras_vit.train.recipe.updates import Average, HeadFirst, Loss, Optimizer, Schedule

# Without this list `from keras_vit.train.recipe import *` would import the submodules, such as `recipe`.
__all__ = [
    "Adapt",
    "Augment",
    "Average",
    "BiTVariant",
    "Checkpoint",
    "Curriculum",
    "Data",
    "EfficientNetVariant",
    "Evaluate",
    "HeadFirst",
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
