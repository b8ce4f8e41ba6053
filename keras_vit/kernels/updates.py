"""Update a variable and its moments in place on CPUs, in one XLA-compiled loop.

If another operation still reads the old values, TensorFlow writes the new values to other memory.
"""

import tensorflow as tf

from keras_vit.kernels import by_xla
from keras_vit.kernels.token_sums import sum_in_xla, xla_compiled

LARGE = 2**15  # values; smaller variables do not gain from a compiled loop


def use_fused_update(variable) -> bool:
    """Return whether a variable is large, in float32 and on a CPU."""
    return variable.shape.num_elements() >= LARGE and variable.dtype == tf.float32 and not by_xla()


def bias_corrections(count, betas: tuple):
    """Return the bias correction of each moment after `count` updates, 1 - beta^count."""
    count = tf.cast(count, tf.float64)  # 1 - 0.999 loses digits in float32
    return tuple(tf.cast(1.0 - tf.pow(tf.constant(beta, tf.float64), count), tf.float32) for beta in betas)


@xla_compiled
def adamw(handles, gradient, scale, rate, corrections, betas: tuple, epsilon: float, decay: float, moment_dtype: str):
    """Update a variable as `keras_vit.train.optim.adam.AdamW` does.

    Args:
        handles: resource handles of the variable, the first moment and the second moment.
        gradient: gradient, in the shape of the variable.
        scale: scalar factor of the gradient.
        rate: learning rate, a scalar.
        corrections: `bias_corrections` of both moments.
        betas: decay rates of the moments.
        epsilon: added to the bias-corrected root of the second moment.
        decay: decoupled weight decay, multiplied by the rate.
        moment_dtype: dtype of the first moment.
    """
    variable, mean, square = (_read(*pair) for pair in zip(handles, ("float32", moment_dtype, "float32"), strict=True))
    gradient = tf.cast(gradient, tf.float32) * scale
    first = betas[0] * tf.cast(mean, tf.float32) + (1.0 - betas[0]) * gradient
    second = betas[1] * square + (1.0 - betas[1]) * gradient * gradient
    root = tf.sqrt(corrections[1])
    step = rate * root / corrections[0] * first / (tf.sqrt(second) + epsilon * root)
    _write(handles, (variable - (rate * decay * variable + step), tf.cast(first, moment_dtype), second))


@xla_compiled
def momentum(handles, gradient, scale, rate, beta: float, decay: float, moment_dtype: str):
    """Update a variable as `keras_vit.train.optim.sgd.SGD` does.

    Args:
        handles: resource handles of the variable and its momentum.
        gradient, scale, rate, decay, moment_dtype: as in `adamw`.
        beta: momentum, in [0, 1).
    """
    variable, moment = (_read(*pair) for pair in zip(handles, ("float32", moment_dtype), strict=True))
    moment = beta * tf.cast(moment, tf.float32) + tf.cast(gradient, tf.float32) * scale
    _write(handles, (variable - rate * (decay * variable + moment), tf.cast(moment, moment_dtype)))


@xla_compiled
def sum_of_squares(gradient):
    """Return the sum of squares as a float32 scalar, by matmuls, because XLA sums sequentially."""
    wide = tf.reshape(tf.cast(gradient, tf.float32), (-1, gradient.shape[-1]))
    return sum_in_xla((wide * wide) @ tf.ones((gradient.shape[-1], 1)))[0]


def _read(handle, dtype):
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def _write(handles, values):
    for handle, value in zip(handles, values, strict=True):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)
