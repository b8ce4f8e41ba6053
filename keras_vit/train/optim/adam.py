"""AdamW and LAMB."""

import tensorflow as tf

from keras_vit.kernels import updates
from keras_vit.train.optim.update import Update


class AdamW(Update):
    """Adam with decoupled weight decay (arXiv 1711.05101); epsilon is added to the bias-corrected root."""

    def make_slots(self, variable):
        return self.slot("mean", variable, self.settings.moment_dtype), self.slot("square", variable)

    def scalars(self, count):
        betas = self.settings.beta_1, self.settings.beta_2
        powers = [tf.pow(beta, count) for beta in betas]
        return {
            "betas": [tf.constant(beta) for beta in betas],
            "powers": powers,
            "corrections": updates.bias_corrections(count, betas),
            # TensorFlow's kernel adds epsilon before the bias correction; this epsilon is equal after the correction.
            "epsilon": self.settings.epsilon * tf.sqrt(1.0 - powers[1]),
        }

    def loop_of(self, slots):
        return self._loop

    def _loop(self, gradient, scale, variable, rate, decay, mean, square):
        handles, corrections = (variable.handle, mean.handle, square.handle), self._shared["corrections"]
        betas, epsilon = (self.settings.beta_1, self.settings.beta_2), self.settings.epsilon
        updates.adamw(handles, gradient, scale, rate, corrections, betas, epsilon, decay, mean.dtype.name)

    def step(self, gradient, variable, rate, decay, mean, square):
        self.decay(variable, rate, decay)
        if mean.dtype != variable.dtype:
            variable.assign_sub(rate * self.direction(gradient, mean, square))
            return
        (beta_1, beta_2), (power_1, power_2) = self._shared["betas"], self._shared["powers"]
        # One TensorFlow kernel makes the whole update instead of a dozen passes.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self._shared["epsilon"],
            grad=gradient,
        )

    def direction(self, gradient, mean, square):
        """Update both moments; return the bias-corrected first moment over the root of the second."""
        beta_1, beta_2 = self.settings.beta_1, self.settings.beta_2
        power_1, power_2 = self._shared["powers"]
        first = beta_1 * tf.cast(mean, gradient.dtype) + (1.0 - beta_1) * gradient
        second = square.assign(beta_2 * square + (1.0 - beta_2) * gradient * gradient)
        mean.assign(tf.cast(first, mean.dtype))
        return first / (1.0 - power_1) / (tf.sqrt(second / (1.0 - power_2)) + self.settings.epsilon)


class Lamb(AdamW):
    """AdamW whose step has the norm of the variable times the rate (arXiv 1904.00962)."""

    def loop_of(self, slots):
        return None

    def step(self, gradient, variable, rate, decay, mean, square):
        direction = self.direction(gradient, mean, square) + decay * variable
        lengths = tf.norm(variable), tf.norm(direction)
        ratio = tf.where((lengths[0] > 0) & (lengths[1] > 0), tf.math.divide_no_nan(*lengths), 1.0)
        variable.assign_sub(rate * ratio * direction)
