"""The optimizers: AdamW, SGD with momentum, LAMB, Adafactor, Muon, for gradients already summed over all replicas.

All of them have decoupled decay of kernels, a rate for every layer, and moments in bfloat16. Keras's own optimizers
differ from optax and torch: AdamW adds epsilon before the bias correction, Lamb leaves the decay out of the trust
ratio, Adafactor scales by the weights, and Muon treats a fused kernel as one matrix.
"""

import re
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_vit.kernels import updates
from keras_vit.private import variable_index
from keras_vit.train.optim import muon

_BLOCK = re.compile(r"encoder_block_\d+|(stem_)?stage\d+_unit\d+")


class Update(keras.optimizers.Optimizer):
    """Base of the optimizers: weight decay, then the update.

    Args:
        rate: a `LearningRateSchedule`, or a float.
        settings: a `keras_vit.train.recipe.Optimizer`.
        shares: factor of the rate by name of the layer; 1 for other layers.
    """

    def __init__(self, rate, settings, shares: dict[str, float], products: str):
        super().__init__(rate, name=settings.kind)
        self.settings, self._shares_of_layers, self._products = settings, shares, products
        self._scale, self._shared = None, {}

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
        self._shared = self.scalars(tf.cast(self.iterations.value + 1, tf.float32))
        try:
            super().apply(gradients, variables)
        finally:
            self._shared = {}

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
            loop = self.loop_of(slots) if updates.worth_a_loop(variable) else None
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
            "weights": updates.weights_of_means(count, betas),
            # TensorFlow's kernel adds epsilon before the bias correction; this epsilon is equal after the correction.
            "epsilon": self.settings.epsilon * tf.sqrt(1.0 - powers[1]),
        }

    def loop_of(self, slots):
        return self._loop

    def _loop(self, gradient, scale, variable, rate, decay, mean, square):
        handles, weights = (variable.handle, mean.handle, square.handle), self._shared["weights"]
        betas, epsilon = (self.settings.beta_1, self.settings.beta_2), self.settings.epsilon
        updates.adamw(handles, gradient, scale, rate, weights, betas, epsilon, decay, mean.dtype.name)

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


class SGD(Update):
    """Momentum: m = momentum * m + gradient; variable -= rate * m, as in optax, torch and the official code."""

    def make_slots(self, variable):
        return (self.slot("momentum", variable, self.settings.moment_dtype),) if self.settings.momentum else ()

    def loop_of(self, slots):
        return self._loop if slots else None

    def _loop(self, gradient, scale, variable, rate, decay, momentum):
        handles, memory = (variable.handle, momentum.handle), self.settings.momentum
        updates.momentum(handles, gradient, scale, rate, memory, decay, momentum.dtype.name)

    def step(self, gradient, variable, rate, decay, momentum=None):
        self.decay(variable, rate, decay)
        if momentum is not None:
            gradient = self.settings.momentum * tf.cast(momentum, gradient.dtype) + gradient
            momentum.assign(tf.cast(gradient, momentum.dtype))
        variable.assign_sub(rate * gradient)


class Lamb(AdamW):
    """AdamW whose step has the norm of the variable times the rate (arXiv 1904.00962)."""

    def loop_of(self, slots):
        return None

    def step(self, gradient, variable, rate, decay, mean, square):
        direction = self.direction(gradient, mean, square) + decay * variable
        lengths = tf.norm(variable), tf.norm(direction)
        ratio = tf.where((lengths[0] > 0) & (lengths[1] > 0), tf.math.divide_no_nan(*lengths), 1.0)
        variable.assign_sub(rate * ratio * direction)


class Adafactor(Update):
    """Second moments stored as means of rows and columns (arXiv 1804.04235), as in arXiv 2106.04560.

    It has momentum, and neither scales by the weights nor clips by block; `beta_2` bounds the decay rate.
    """

    SMALLEST = 32  # shorter axes are not averaged
    POWER = 0.8  # the decay rate of update t is 1 - t ** -0.8
    TINY = 1e-30

    def axes(self, shape) -> tuple[int, int] | None:
        """Return the two longest axes, the longest last; None where the squares are stored whole."""
        order = np.argsort(shape, kind="stable")
        if len(shape) < 2 or shape[order[-2]] < self.SMALLEST:
            return None
        return int(order[-2]), int(order[-1])

    def make_slots(self, variable):
        shape = tuple(variable.shape)
        means = (self.slot("mean", variable, self.settings.moment_dtype),) if self.settings.beta_1 else ()
        axes = self.axes(shape)
        if axes is None:
            return (self.slot("square", variable), *means)
        rows, columns = (tuple(side for i, side in enumerate(shape) if i != axis) for axis in (axes[1], axes[0]))
        return (self.slot("rows", variable, shape=rows), self.slot("columns", variable, shape=columns), *means)

    def scalars(self, count):
        return {"memory": tf.minimum(self.settings.beta_2, 1.0 - tf.pow(count, -self.POWER))}

    def step(self, gradient, variable, rate, decay, *slots):
        memory = self._shared["memory"]
        square = gradient * gradient + self.TINY
        axes = self.axes(tuple(variable.shape))
        if axes is None:
            whole, *means = slots
            update = gradient * tf.math.rsqrt(whole.assign(memory * whole + (1.0 - memory) * square))
        else:
            rows, columns, *means = slots
            short, long = axes
            rows = rows.assign(memory * rows + (1.0 - memory) * tf.reduce_mean(square, axis=long))
            columns = columns.assign(memory * columns + (1.0 - memory) * tf.reduce_mean(square, axis=short))
            place = short - 1 if short > long else short
            rows = tf.math.rsqrt(rows / tf.reduce_mean(rows, axis=place, keepdims=True))
            columns = tf.math.rsqrt(columns)
            update = gradient * tf.expand_dims(rows, long) * tf.expand_dims(columns, short)
        for mean in means:
            update = self.settings.beta_1 * tf.cast(mean, update.dtype) + (1.0 - self.settings.beta_1) * update
            mean.assign(tf.cast(update, mean.dtype))
        self.decay(variable, rate, decay)
        variable.assign_sub(rate * update)


class Muon(AdamW):
    """Muon for the matrices and convolutions of blocks and units, AdamW for all other variables."""

    def make_slots(self, variable):
        path = variable.path.split("/")
        matrix = _BLOCK.fullmatch(path[0]) and path[-1] == "kernel" and muon.moves(variable.shape)
        if not matrix:
            return super().make_slots(variable)
        return (self.slot("momentum", variable, self.settings.moment_dtype),)

    def loop_of(self, slots):
        return super().loop_of(slots) if len(slots) == 2 else None

    def step(self, gradient, variable, rate, decay, *slots):
        if len(slots) == 2:
            super().step(gradient, variable, rate, decay, *slots)
            return
        self.decay(variable, rate, decay)
        beta, (momentum,) = self.settings.momentum, slots
        mean = beta * tf.cast(momentum, gradient.dtype) + (1.0 - beta) * gradient
        momentum.assign(tf.cast(mean, momentum.dtype))
        ahead = beta * mean + (1.0 - beta) * gradient  # Nesterov momentum
        path = self._paths[variable_index(self, variable)]
        variable.assign_sub(rate * muon.direction(ahead, path, self._products))


_KINDS = {"adamw": AdamW, "sgd": SGD, "lamb": Lamb, "adafactor": Adafactor, "muon": Muon}


def build_optimizer(
    settings, rate, variables, shares: dict[str, float] | None = None, products: str = "float32"
) -> Update:
    """Build the optimizer of a recipe and its variables. Weight decay applies to kernels only, not to biases, norms or
    tokens. Call it in the strategy's scope.

    Args:
        settings: a `keras_vit.train.recipe.Optimizer`.
        rate: a `LearningRateSchedule`, or a float.
        variables: the trained variables.
        shares: factor of the rate by name of the layer; 1 for other layers.
        products: dtype of the matrix products of an update, `float32` or `bfloat16`.
    """
    optimizer = _KINDS[settings.kind](rate, settings, shares or {}, products)
    optimizer.build(variables)
    return optimizer


def layer_shares(model: keras.Model, decay: float) -> dict[str, float]:
    """Return the layer-wise factors of the rate: 1 after the last block, and one factor `decay` per block before it.

    Layers in front of the first block get one more factor `decay` than the first block (arXiv 2106.08254).
    """
    names = [layer.name for layer in model.layers]
    blocks = sum(bool(_BLOCK.fullmatch(name)) for name in names)
    shares, passed = {}, 0
    for name in names:
        passed += bool(_BLOCK.fullmatch(name))
        behind = passed == blocks and not _BLOCK.fullmatch(name)
        shares[name] = 1.0 if behind else decay ** (blocks + 1 - passed)
    return shares
