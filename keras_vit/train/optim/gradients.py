"""The norm of all gradients together, and clipping by it."""

import tensorflow as tf

from keras_vit.kernels import updates


def clip_scale(norm, largest: float | None):
    """What gradients of this global norm are multiplied by to have the largest one at most; None for any."""
    return None if largest is None else tf.minimum(1.0, largest / tf.maximum(norm, 1e-12))


def global_norm(gradients: list):
    """The root of the sum of all squares, in float32; gradients in bfloat16 there are on CPUs alone (`early_casts`)."""
    narrow = [updates.sum_of_squares(gradient) for gradient in gradients if gradient.dtype == tf.bfloat16]
    wide = [2.0 * tf.nn.l2_loss(gradient) for gradient in gradients if gradient.dtype != tf.bfloat16]
    return tf.sqrt(tf.add_n(narrow + wide))
