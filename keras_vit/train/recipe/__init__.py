"""Recipes: frozen dataclasses that say everything a training run does. Reading them needs no TensorFlow."""

from keras_vit.models.variants import BiTVariant as BiTVariant
from keras_vit.models.variants import ResNetStem as ResNetStem
from keras_vit.models.variants import Variant as Variant
from keras_vit.train.recipe.inputs import Augment as Augment
from keras_vit.train.recipe.inputs import Curriculum as Curriculum
from keras_vit.train.recipe.inputs import Data as Data
from keras_vit.train.recipe.inputs import Stage as Stage
from keras_vit.train.recipe.masked import Masked as Masked
from keras_vit.train.recipe.recipe import Checkpoint as Checkpoint
from keras_vit.train.recipe.recipe import Evaluate as Evaluate
from keras_vit.train.recipe.recipe import Model as Model
from keras_vit.train.recipe.recipe import Recipe as Recipe
from keras_vit.train.recipe.updates import Average as Average
from keras_vit.train.recipe.updates import Loss as Loss
from keras_vit.train.recipe.updates import Optimizer as Optimizer
from keras_vit.train.recipe.updates import Schedule as Schedule
