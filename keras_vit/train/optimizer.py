"""AdamW and SGD with momentum, for gradients that are already summed over all replicas."""

import keras
import tensorflow as tf


class _Summed:
    """Mixin: leaves the gradients as they are, since the engine sums them before it clips them.

    Keras sums inside the optimizer, after clipping each replica's own share, which is another update than one
    device makes.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return grads_and_vars


class AdamW(_Summed, keras.optimizers.AdamW):
    """Adam with decoupled weight decay (arXiv 1711.05101), to the letter: epsilon joins the corrected root.

    Keras adds epsilon before the bias correction, which makes it up to 30 times larger in the first steps than the
    paper, optax and torch have it. One kernel of TensorFlow does the whole update, in place of a dozen passes.
    """

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, variable.dtype)
        power_1, power_2 = tf.pow(self.beta_1, step), tf.pow(self.beta_2, step)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            # The kernel adds epsilon to the root before the correction; this is the same once it is corrected.
            epsilon=self.epsilon * tf.sqrt(1.0 - power_2),
            grad=tf.cast(gradient, variable.dtype),
        )


class SGD(_Summed, keras.optimizers.SGD):
    """Momentum: m = momentum * m - rate * gradient; variable += m."""


def build_optimizer(settings, rate, variables) -> keras.optimizers.Optimizer:
    """The optimizer of a recipe, with its variables made. Weight decay reaches kernels alone, not biases, norms or
    tokens. Call it in the strategy's scope.

    Args:
        settings: a `keras_vit.train.recipe.Optimizer`.
        rate: a `LearningRateSchedule`, or a number.
        variables: that will be trained.
    """
    if settings.kind == "adamw":
        optimizer = AdamW(rate, settings.weight_decay, settings.beta_1, settings.beta_2, settings.epsilon)
    else:
        optimizer = SGD(rate, settings.momentum, weight_decay=settings.weight_decay or None)
    kept = [variable for variable in variables if not variable.path.endswith("/kernel")]
    if settings.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=kept)
    optimizer.build(variables)
    return optimizer


def clip_by_norm(gradients: list, largest: float | None):
    """Scale all gradients together down to a global norm; also returns the norm they had."""
    norm = tf.linalg.global_norm(gradients)
    if largest is None:
        return gradients, norm
    scale = tf.minimum(1.0, largest / tf.maximum(norm, 1e-12))
    return [gradient * scale for gradient in gradients], norm


def average_towards(average: list, variables: list, decay: float, step, strategy) -> None:
    """Move each average a step towards its variable: average -= (1 - d) * (average - variable).

    Args:
        average: variables that hold the averages.
        variables: that were just updated.
        decay: d of late steps; step t keeps (1 + t) / (10 + t) at most, so that the first weights are forgotten.
        step: t, from 0.
        strategy: whose cross-replica context this is called in.
    """
    step = tf.cast(step, tf.float32)
    rest = 1.0 - tf.minimum(decay, (1.0 + step) / (10.0 + step))
    for kept, variable in zip(average, variables, strict=True):
        strategy.extended.update(
            kept.value, lambda a, v: a.assign_sub(tf.cast(rest, a.dtype) * (a - v)), args=(variable.value,)
        )
