"""Losses and metrics of a regression.

B batch, T targets, N images.
"""

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples
from keras_vit.train.recipe import Loss


def target_scale(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of each target, float32 (T,), including files that are left out.

    Raises:
        ValueError: a target has one value only.
    """
    values = (examples.whole or examples).targets.astype("float64")
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    constant = [name for name, value in zip(examples.labels, deviation, strict=True) if not value > 0]
    if constant:
        raise ValueError(f"targets expected training images with different values of each target, found one value of "
                         f"{', '.join(constant)}; leave out the column.")  # fmt: skip
    return mean.astype("float32"), deviation.astype("float32")


def regression_losses(loss: Loss, targets, outputs, deviation):
    """Return the loss of each example in standard deviations: targets (B, T) and outputs (B, T) -> (B,).

    `huber` is quadratic up to `huber_delta` and linear beyond, as PyTorch's `HuberLoss`.
    """
    errors = (tf.cast(outputs, tf.float32) - targets) / deviation
    sizes = tf.abs(errors)
    if loss.kind == "mse":
        losses = errors**2
    elif loss.kind == "l1":
        losses = sizes
    else:
        delta = loss.huber_delta
        losses = tf.where(sizes <= delta, 0.5 * errors**2, delta * (sizes - 0.5 * delta))
    return tf.reduce_mean(losses, axis=-1)


def sums_function(model, loss: Loss, mean, deviation):
    """Return a compiled function of a batch (images, values, weights) that returns sums for `metrics_of_sums`."""

    @tf.function
    def sums(images, values, weights):
        outputs = tf.cast(model(images, training=False), tf.float32)
        losses = regression_losses(loss, values, outputs, deviation)
        errors, shifted = outputs - values, (values - mean) / deviation  # sums of squares lose less around the mean
        columns = tf.concat([tf.abs(errors), errors**2, shifted, shifted**2], axis=-1)
        totals = tf.reduce_sum(columns * weights[:, None], axis=0)
        return tf.concat([tf.stack([tf.reduce_sum(losses * weights), tf.reduce_sum(weights)]), totals], axis=0)

    return sums


def metrics_of_sums(total: np.ndarray, names: tuple[str, ...], deviation) -> dict:
    """Return the metrics of a regression from the sums of all batches, float64 (2 + 4 T,).

    Returns:
        `loss`, in standard deviations; `mae`, the mean absolute error, and `rmse`, the root mean squared error, in the
        target's units; `r2`, the coefficient of determination; and `examples`. With several targets, `r2` is the mean
        over the targets, and `mae_NAME`, `rmse_NAME` and `r2_NAME` are those of each. All but the count are NaN if the
        loss is not finite. `r2` is NaN if a target has one value only.
    """
    loss, count = total[:2]
    if not np.isfinite(loss):
        total = np.full_like(total, np.nan)
    absolute, squared, shifted, shifted_squared = np.split(total[2:], 4)
    spread = (shifted_squared - shifted**2 / count) * np.asarray(deviation, "float64") ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(spread > 1e-9 * count * np.asarray(deviation, "float64") ** 2, 1 - squared / spread, np.nan)
    own = {"mae": absolute / count, "rmse": np.sqrt(squared / count), "r2": r2}
    metrics = {"loss": float(total[0] / count)}
    if len(names) == 1:
        metrics |= {name: float(values[0]) for name, values in own.items()}
    else:
        metrics["r2"] = float(r2.mean())
        metrics |= {f"{metric}_{name}": float(values[i]) for i, name in enumerate(names)
                    for metric, values in own.items()}  # fmt: skip
    return metrics | {"examples": round(count)}
