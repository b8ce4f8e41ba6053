"""For training on CPUs: the same numbers but for rounding, by cheaper gradients (benchmarks/NOTES.md has the gains).

GELU and norms, with the ReLU behind one: loops that XLA compiles (`keras_vit.xla`). Biases: their gradient, a sum over
rows, is the product of a row of ones with these. An MLP's first bias is added by GELU's loop and attention's by the one
that cuts query, key and value apart, since products with one are slow with AMX. Attention has a gradient of its own
(`attended.py`). A 1 x 1 convolution is a product. Of a norm the backward pass keeps the input alone, in wide models of
attention and of GELU's product with the kernel behind it, too: what is between is computed again, but of few rows
(GELU's in bfloat16). Evaluation and exports keep the plain forms. On GPUs and TPUs XLA compiles all of a replica's
gradient, and does the like by itself.
"""

from functools import partial

import keras
import tensorflow as tf

from keras_vit.layers import GroupNorm, LayerNorm, MLPBlock, MultiHeadSelfAttention, StdConv
from keras_vit.layers.base import Biased
from keras_vit.private import layers_of
from keras_vit.train.attended import attended_product
from keras_vit.xla import by_xla
from keras_vit.xla.activations import GELU, GELU_TANH
from keras_vit.xla.norms import group_norm, layer_norm, standardized
from keras_vit.xla.rows import sum_of_rows

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
