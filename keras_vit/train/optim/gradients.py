"""The global norm of gradients, and clipping by it."""

import tensorflow as tf

from keras_vit.kernels import updates


def clip_scale(norm, largest: float | None):
    """Return the factor that clips gradients of a global norm to `clip_norm`; None without clipping."""
    return None if largest is None else tf.minimum(1.0, largest / tf.maximum(norm, 1e-12))


def global_norm(gradients: list):
    """Return the global norm of gradients in float32. Gradients in bfloat16 occur only on CPUs (`early_casts`)."""
    narrow = [updates.sum_of_squares(gradient) for gradient in gradients if gradient.dtype == tf.bfloat16]
    wide = [2.0 * tf.nn.l2_loss(gradient) for gradient in gradients if gradient.dtype != tf.bfloat16]
    return tf.sqrt(tf.add_n(narrow + wide))
