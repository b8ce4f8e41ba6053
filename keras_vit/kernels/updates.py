"""An optimizer's update of a variable on CPUs: one loop that XLA compiles, in the memory of the variable and its means.

Where something else still reads the old numbers, a backward pass say, TensorFlow writes the new ones elsewhere.
"""

import tensorflow as tf

from keras_vit.kernels import by_xla
from keras_vit.kernels.rows import compiled, summed

LARGE = 2**15  # numbers from which a loop is worth its compilation


def worth_a_loop(variable) -> bool:
    """Whether there are enough numbers, in float32 and on a CPU."""
    return variable.shape.num_elements() >= LARGE and variable.dtype == tf.float32 and not by_xla()


def weights_of_means(count, betas: tuple):
    """What the weights of each mean add up to after so many updates."""
    count = tf.cast(count, tf.float64)  # to the last digit: 1 - 0.999 has few of them in float32
    return tuple(tf.cast(1.0 - tf.pow(tf.constant(beta, tf.float64), count), tf.float32) for beta in betas)


@compiled
def adamw(handles, gradient, scale, rate, weights, betas: tuple, epsilon: float, decay: float, moment_dtype: str):
    """`keras_vit.train.optim.optimizer.AdamW`'s update.

    Args:
        handles: of the variable, of its mean gradient and of its mean square.
        gradient: of the variable's shape.
        scale: scalar that it is multiplied by.
        rate: scalar.
        weights: of the means, see `weights_of_means`.
        betas: memories of the means.
        epsilon: added to the corrected root.
        decay: decoupled, in shares of the rate.
        moment_dtype: the mean gradient's.
    """
    variable, mean, square = (_read(*pair) for pair in zip(handles, ("float32", moment_dtype, "float32"), strict=True))
    gradient = tf.cast(gradient, tf.float32) * scale
    first = betas[0] * tf.cast(mean, tf.float32) + (1.0 - betas[0]) * gradient
    second = betas[1] * square + (1.0 - betas[1]) * gradient * gradient
    root = tf.sqrt(weights[1])
    step = rate * root / weights[0] * first / (tf.sqrt(second) + epsilon * root)
    _write(handles, (variable - (rate * decay * variable + step), tf.cast(first, moment_dtype), second))


@compiled
def momentum(handles, gradient, scale, rate, memory: float, decay: float, moment_dtype: str):
    """`keras_vit.train.optim.optimizer.SGD`'s update.

    Args:
        handles: of the variable and of its momentum.
        gradient, scale, rate, decay, moment_dtype: as of `adamw`.
        memory: share of the momentum that is left.
    """
    variable, moment = (_read(*pair) for pair in zip(handles, ("float32", moment_dtype), strict=True))
    moment = memory * tf.cast(moment, tf.float32) + tf.cast(gradient, tf.float32) * scale
    _write(handles, (variable - rate * (decay * variable + moment), tf.cast(moment, moment_dtype)))


@compiled
def sum_of_squares(gradient):
    """(..., F) -> a scalar of float32; as products, since XLA adds up numbers one after the other."""
    wide = tf.reshape(tf.cast(gradient, tf.float32), (-1, gradient.shape[-1]))
    return summed((wide * wide) @ tf.ones((gradient.shape[-1], 1)))[0]


def _read(handle, dtype):
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def _write(handles, values):
    for handle, value in zip(handles, values, strict=True):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)
