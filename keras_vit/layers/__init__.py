"""Keras layers of the Vision Transformer; `keras.ops` only, so that they run on every Keras backend."""

from keras_vit.layers.base import require_rate as require_rate
from keras_vit.layers.base import starting_from as starting_from
from keras_vit.layers.encoder import EncoderBlock as EncoderBlock
from keras_vit.layers.encoder import LayerNorm as LayerNorm
from keras_vit.layers.encoder import MultiHeadSelfAttention as MultiHeadSelfAttention
from keras_vit.layers.encoder import StochasticDepth as StochasticDepth
from keras_vit.layers.mlp import MLPBlock as MLPBlock
from keras_vit.layers.patches import PatchEmbedding as PatchEmbedding
from keras_vit.layers.patches import PatchExtraction as PatchExtraction
from keras_vit.layers.patches import as_pair as as_pair
from keras_vit.layers.pooling import AttentionPooling as AttentionPooling
from keras_vit.layers.pooling import Head as Head
from keras_vit.layers.pooling import MeanPooling as MeanPooling
from keras_vit.layers.pooling import TokenPooling as TokenPooling
from keras_vit.layers.positions import PositionEmbedding as PositionEmbedding
from keras_vit.layers.positions import SinCosPositions as SinCosPositions
from keras_vit.layers.resnet import GroupNorm as GroupNorm
from keras_vit.layers.resnet import PreActivationUnit as PreActivationUnit
from keras_vit.layers.resnet import ResidualUnit as ResidualUnit
from keras_vit.layers.resnet import StdConv as StdConv
from keras_vit.layers.resnet import StemPool as StemPool
from keras_vit.layers.tokens import ClassToken as ClassToken
from keras_vit.layers.tokens import GridToTokens as GridToTokens
from keras_vit.layers.tokens import TokensToGrid as TokensToGrid
