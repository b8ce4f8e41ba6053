"""Cheaper gradients for training on CPUs; they differ from the plain layers by rounding alone.

GELU, ReLU and the norms are loops that XLA compiles. The gradient of a bias, a sum over tokens, is computed as a matrix
product with a row of ones. Matrix products with a bias are slow with AMX: GELU's loop adds the bias of an MLP's first
layer, and the loop that splits query, key and value adds attention's. A 1 x 1 convolution is a matrix product. The
gradient of attention is in `training_attention.py`.

The backward pass of a norm keeps only its input. Wide models do the same for attention, and for GELU with the matrix
product after it; few tokens keep their activations. Evaluation and exports use the plain layers. On GPUs and TPUs XLA
compiles the gradient of a whole replica, and these overrides are not used.
"""

from functools import partial

import keras
import tensorflow as tf

from keras_vit.kernels import by_xla
from keras_vit.kernels.activations import GELU, GELU_TANH
from keras_vit.kernels.norms import group_norm, layer_norm, standardized
from keras_vit.kernels.rows import sum_of_rows
from keras_vit.kernels.training_attention import attended_product
from keras_vit.layers import GroupNorm, LayerNorm, MLPBlock, MultiHeadSelfAttention, StdConv
from keras_vit.layers.base import Biased
from keras_vit.private import layers_of

WIDE = 512  # from this width on attention and GELU are computed again: 2 to 3 % of a step at 768, a tenth at 192


def add_bias(x, bias):
    """(..., F) and (F,) -> (..., F)."""
    return _add_bias(x, tf.convert_to_tensor(bias))


@tf.custom_gradient
def _add_bias(x, bias):
    def gradients(gradient):
        return gradient, sum_of_rows(tf.reshape(gradient, (-1, gradient.shape[-1])))

    return tf.nn.bias_add(x, bias), gradients


def pointwise(x, kernel, *_):
    """A convolution (1, 1, C, F) without strides as the product that it is, gradients too: (..., C) -> (..., F)."""
    channels, filters = kernel.shape[2:]
    product = tf.reshape(x, (-1, channels)) @ tf.reshape(kernel, (channels, filters))
    return tf.reshape(product, (-1, *x.shape[1:-1], filters))


def fuse(model: keras.Model) -> keras.Model:
    """Give a model that will be trained on CPUs these forms, while it trains; returns the model."""
    forms = {"gelu_tanh": GELU_TANH, "gelu": GELU}
    if by_xla():
        return model
    for layer in layers_of(model):
        if isinstance(layer, MLPBlock) and layer.activation in forms:
            form, again = forms[layer.activation], layer.fc2.units >= WIDE
            layer.activate_in_training, layer.activated_product_in_training = form, partial(form.product, again=again)
        elif isinstance(layer, MultiHeadSelfAttention):
            plain = not (layer.attention_dropout_rate or layer.relative_positions)  # no drawn mask, no weight inside
            if plain:
                layer.attended_product_in_training = attended_product(again=layer.out.units >= WIDE)
        elif isinstance(layer, LayerNorm):
            layer.norm_in_training = layer_norm
        elif isinstance(layer, GroupNorm):
            layer.norm_in_training = group_norm
        elif isinstance(layer, StdConv):
            if layer.epsilon_on == "variance":
                layer.standardized_in_training = standardized
            if layer.kernel_size == (1, 1) and layer.strides == 1:
                layer.convolved_in_training = pointwise
        elif isinstance(layer, Biased):
            layer.add_bias_in_training = add_bias
    return model
