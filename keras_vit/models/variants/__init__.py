"""The tables of models: one file a family, one row a model. `lookup.py` lists the families.

A row states the sizes of a model. Its builder, docs/zoo.md, `keras-vit list` and the tests read the row.
"""

from keras_vit.models.variants.lookup import BIT_VARIANTS as BIT_VARIANTS
from keras_vit.models.variants.lookup import EFFICIENTNETS as EFFICIENTNETS
from keras_vit.models.variants.lookup import FAMILIES as FAMILIES
from keras_vit.models.variants.lookup import ROWS as ROWS
from keras_vit.models.variants.lookup import VARIANTS as VARIANTS
from keras_vit.models.variants.lookup import find_variant as find_variant
from keras_vit.models.variants.lookup import list_models as list_models
from keras_vit.models.variants.lookup import names_of as names_of
from keras_vit.models.variants.parts import ConvStem as ConvStem
from keras_vit.models.variants.parts import ResNetStem as ResNetStem
from keras_vit.models.variants.parts import Rope as Rope
from keras_vit.models.variants.rows import AnyVariant as AnyVariant
from keras_vit.models.variants.rows import BiTVariant as BiTVariant
from keras_vit.models.variants.rows import ConvNet as ConvNet
from keras_vit.models.variants.rows import EfficientNetVariant as EfficientNetVariant
from keras_vit.models.variants.rows import ParameterCounts as ParameterCounts
from keras_vit.models.variants.rows import Variant as Variant
