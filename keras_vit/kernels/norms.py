"""Norms and their gradients on CPUs in float32. Each pass is one XLA-compiled loop or one oneDNN operation.

Only the input of a norm is saved for the backward pass. Kernels are standardised by oneDNN's batch normalisation.
"""

import math

import numpy as np
import tensorflow as tf

from keras_vit.kernels import onednn
from keras_vit.kernels.token_sums import sum_in_xla, xla_compiled
from keras_vit.layers.groupnorm import mean_of_groups


@xla_compiled
def _normed(x, gamma, beta, epsilon: float):
    width = gamma.shape[-1]
    wide, share = tf.cast(x, tf.float32), tf.fill((width, 1), 1.0 / width)
    mean = wide @ share  # matmuls, because XLA sums a row sequentially
    deviation = wide - mean
    rate = tf.math.rsqrt((deviation * deviation) @ share + epsilon)
    return tf.cast(deviation * rate * gamma + beta, x.dtype), mean, rate


@xla_compiled
def _layer_norm_gradients(gradient, x, mean, rate, gamma):
    """Return the gradients of x, gamma and beta; sums over a row are matmuls, as in `_normed`."""
    gradient, deviation, column = tf.cast(gradient, tf.float32), tf.cast(x, tf.float32) - mean, gamma[:, None]
    product, width = gradient * deviation * rate, gamma.shape[0]
    along, constant = rate * (product @ column) / width, (gradient @ column) / width
    by_x = _input_gradient(gradient, deviation, rate, gamma, along, constant)
    return tf.cast(by_x, x.dtype), sum_in_xla(product), sum_in_xla(gradient)


@xla_compiled
def _group_norm_input_gradient(gradient, x, mean, rate, gamma, along, constant, beta=None):
    gradient, deviation = _output_gradient(gradient, x, mean, rate, gamma, beta), tf.cast(x, tf.float32) - mean
    return tf.cast(_input_gradient(gradient, deviation, rate, gamma, along, constant), x.dtype)


def _input_gradient(gradient, deviation, rate, gamma, along, constant):
    return rate * (gradient * gamma - deviation * along - constant)


def _output_gradient(gradient, x, mean, rate, gamma, beta):
    """Return the gradient of a norm's output in float32. With `beta`, `gradient` belongs to a ReLU after the norm."""
    gradient = tf.cast(gradient, tf.float32)
    return (
        gradient if beta is None else tf.where((tf.cast(x, tf.float32) - mean) * (rate * gamma) + beta > 0, gradient, 0)
    )


def layer_norm(x, gamma, beta, epsilon: float):
    """Return `layer_norm` in the dtype of `x`, saving only `x`, means and rates for the gradient."""
    shape, width = tf.shape(x), gamma.shape[-1]

    @tf.custom_gradient
    def normed(x, gamma, beta):
        rows = tf.reshape(x, (-1, width))
        y, mean, rate = _normed(rows, gamma, beta, epsilon)

        def gradients(gradient):
            by_x, by_gamma, by_beta = _layer_norm_gradients(tf.reshape(gradient, (-1, width)), rows, mean, rate, gamma)
            return tf.reshape(by_x, shape), by_gamma, by_beta

        return tf.reshape(y, shape), gradients

    return normed(x, gamma, beta)


def inference_layer_norm(x, gamma, beta, epsilon: float, stored="float32"):
    """Return `layer_norm` in the dtype of `x` for inference, by oneDNN if TensorFlow has it, else by an XLA loop.

    Args:
        x: (..., D).
        gamma: (D,) in float32.
        beta: (D,) in float32.
        epsilon: added to the variance.
        stored: dtype of the weights that `gamma` and `beta` were cast from. oneDNN takes them in the dtype of `x`;
            if the cast would round them, oneDNN normalises in float32.
    """
    epsilon = float(epsilon)
    if not has_onednn_norm(x.dtype, stored):
        y, *_ = _normed(tf.reshape(x, (-1, gamma.shape[-1])), gamma, beta, epsilon)
        return tf.reshape(y, tf.shape(x))
    return _onednn_norm(x, gamma, beta, epsilon, _onednn_dtype(x.dtype, stored))


@tf.function(autograph=False)  # so that eager code and tapes can call it
def _onednn_norm(x, gamma, beta, epsilon: float, dtype):
    """Normalise by oneDNN in `dtype`; return the dtype of `x`."""
    rows = tf.reshape(tf.cast(x, dtype), (-1, gamma.shape[-1]))
    y = onednn.fused_layer_norm(rows, tf.cast(gamma, dtype), tf.cast(beta, dtype), epsilon)
    return tf.cast(tf.reshape(y, tf.shape(x)), x.dtype)


def has_onednn_norm(dtype, stored) -> bool:
    """Return whether oneDNN can normalise values of `dtype` by weights stored in `stored` on this machine."""
    # oneDNN's operation needs a graph, and eager functions have none.
    return not tf.config.functions_run_eagerly() and onednn.has_layer_norm(_onednn_dtype(dtype, stored))


def _onednn_dtype(dtype, stored):
    return tf.as_dtype(dtype) if tf.as_dtype(dtype) == tf.as_dtype(stored) else tf.float32


# The passes of GroupNorm over a feature map of P pixels: (B, P, C); means and factors are (B, 1, C).


@xla_compiled
def _sums(x):
    return sum_in_xla(tf.cast(x, tf.float32))


@xla_compiled
def _sums_of_squares(x, mean):
    return sum_in_xla(tf.square(tf.cast(x, tf.float32) - mean))


@xla_compiled
def _scaled(x, mean, rate, gamma, beta, relu: bool):
    y = (tf.cast(x, tf.float32) - mean) * (rate * gamma) + beta
    return tf.cast(tf.nn.relu(y) if relu else y, x.dtype)


@xla_compiled
def _sums_with(gradient, x, mean, rate, gamma, beta):
    gradient = _output_gradient(gradient, x, mean, rate, gamma, beta)
    return sum_in_xla(gradient), sum_in_xla(gradient * (tf.cast(x, tf.float32) - mean))


def group_norm(x, gamma, beta, epsilon: float, relu: bool = False):
    """Return `group_norm` of (B, H, W, C) in the dtype of `x`, saving only `x` for the gradient."""
    shape, (*sides, channels) = tf.shape(x), x.shape[1:]
    if None in sides:
        flat, pixels = (shape[0], -1, channels), tf.cast(shape[1] * shape[2], tf.float32)
    else:
        flat, pixels = (-1, math.prod(sides), channels), float(math.prod(sides))

    @tf.custom_gradient
    def normed(x, gamma, beta):
        x = tf.reshape(x, flat)
        mean = mean_of_groups(_sums(x) / pixels)
        rate = tf.math.rsqrt(mean_of_groups(_sums_of_squares(x, mean) / pixels) + epsilon)

        def gradients(gradient):
            gradient, shift = tf.reshape(gradient, flat), beta if relu else None
            gradient_sums, product_sums = _sums_with(gradient, x, mean, rate, gamma, shift)
            constant, along = (mean_of_groups(sums * gamma / pixels) for sums in (gradient_sums, product_sums))
            by_x = _group_norm_input_gradient(gradient, x, mean, rate, gamma, rate**2 * along, constant, shift)
            by_gamma = tf.reduce_sum(product_sums * tf.squeeze(rate, 1), axis=0)
            return tf.reshape(by_x, shape), by_gamma, tf.reduce_sum(gradient_sums, axis=0)

        return tf.reshape(_scaled(x, mean, rate, gamma, beta, relu), shape), gradients

    return normed(x, gamma, beta)


def standardized(kernel, epsilon: float, epsilon_on: str = "variance"):
    """Standardise a kernel with the epsilon on the variance, by batch normalisation."""
    filters = kernel.shape[-1]
    ones, zeros = np.ones(filters, "float32"), np.zeros(filters, "float32")
    normed, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(kernel, (-1, 1, 1, filters)), scale=ones, offset=zeros, mean=zeros[:0], variance=zeros[:0],
        epsilon=epsilon, is_training=True,
    )  # fmt: skip
    return tf.reshape(normed, kernel.shape)
