"""The base of the optimizers.

Keras's own optimizers differ from optax and torch: AdamW adds epsilon before the bias correction, Lamb leaves the decay
out of the trust ratio, Adafactor scales by the weights, and Muon treats a fused kernel as one matrix.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_vit.kernels import updates
from keras_vit.private import variable_index


class Update(keras.optimizers.Optimizer):
    """An optimizer with decoupled weight decay, a learning rate per layer, and moments in float32 or bfloat16.

    Gradients are already summed over all replicas. Subclasses define `make_slots` and `step`; `shares` are the factors
    of the rate by name of the layer.
    """

    def __init__(self, rate, settings, shares: dict[str, float], matmul_dtype: str):
        super().__init__(rate, name=settings.kind)
        self.settings, self._shares_of_layers, self._matmul_dtype = settings, shares, matmul_dtype
        self._scale, self._shared = None, {}
        self.begin = 0  # iterations before `restart`

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._paths = [variable.path.split("/") for variable in variables]
        self._shares = [self._shares_of_layers.get(path[0], 1.0) for path in self._paths]
        self._decays = [self.settings.weight_decay * (path[-1] == "kernel") for path in self._paths]
        self._slots = [self.make_slots(variable) for variable in variables]

    def slot(self, name: str, variable, dtype: str | None = None, shape=None) -> keras.Variable:
        """Create a slot variable of zeros for a variable of the model, of the same shape by default."""
        return self.add_variable(
            shape=variable.shape if shape is None else shape, dtype=dtype or variable.dtype, initializer="zeros",
            name=f"{variable.path.replace('/', '_')}_{name}",
        )  # fmt: skip

    def apply_scaled(self, gradients, variables, scale) -> None:
        """Apply all gradients times a scalar, or unscaled where it is None; XLA loops multiply inside the loop."""
        self._scale = scale
        try:
            self.apply(gradients, variables)
        finally:
            self._scale = None

    def apply(self, gradients, variables=None):
        # Once for all variables, not for each: otherwise they are two fifths of the operations of a step.
        self._shared = self.scalars(tf.cast(self.iterations.value + (1 - self.begin), tf.float32))
        try:
            super().apply(gradients, variables)
        finally:
            self._shared = {}

    def restart(self) -> None:
        """Reset all slots to zero, as in a new optimizer. `begin` must then be set to the number of iterations so far.

        The number of iterations goes on, because the data, dropout and the learning rate depend on it.
        """
        for slots in self._slots:
            for slot in slots:
                slot.assign(tf.zeros(slot.shape, slot.dtype))

    def scalars(self, count) -> dict:
        """Return the scalars that all variables' updates need at this update, in float32."""
        return {}

    def update_step(self, gradient, variable, learning_rate):
        index = variable_index(self, variable)
        rate = tf.cast(learning_rate, variable.dtype)
        if self._shares[index] != 1:
            rate *= self._shares[index]
        slots = [slot.value for slot in self._slots[index]]
        scale = self._scale
        # Not before both exist: during the backward pass the old weights are still in memory.
        with tf.control_dependencies([gradient] if scale is None else [gradient, scale]):
            loop = self.loop_of(slots) if updates.use_fused_update(variable) else None
            if loop is not None:
                loop(gradient, 1.0 if scale is None else scale, variable, rate, self._decays[index], *slots)
            else:
                gradient = tf.cast(gradient, variable.dtype)
                gradient = gradient if scale is None else gradient * scale
                self.step(gradient, variable, rate, self._decays[index], *slots)

    def loop_of(self, slots) -> Callable | None:
        """Return an XLA-compiled loop that makes the step of a variable with these slots, or None."""
        return None

    def decay(self, variable, rate, decay):
        """Apply decoupled weight decay: variable -= rate * decay * variable."""
        if decay:
            variable.assign_sub(variable * (rate * decay))

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """Return the gradients: the engine has summed them before clipping. Keras would sum here, after clipping."""
        return grads_and_vars
