"""One update of the weights, on every replica.

B batch, K classes.
"""

import tensorflow as tf

from keras_vit.data.seeds import seed_pair
from keras_vit.evaluate.losses import NO_TERMS, ClassTerms
from keras_vit.kernels import by_xla
from keras_vit.kernels.dispatch import training_overrides
from keras_vit.layers import use_random_values
from keras_vit.layers.base import Dense
from keras_vit.layers.override import overriding
from keras_vit.private import layers_of, release_gradients, stored_kernel
from keras_vit.tasks import task_of
from keras_vit.train.masks import uniform_of_part
from keras_vit.train.moving import assign, mean_of, moving_averages
from keras_vit.train.optim.freeze import head_variables
from keras_vit.train.optim.gradients import clip_scale, global_norm
from keras_vit.train.recipe import Recipe
from keras_vit.train.stages import Forward, Span
from keras_vit.train.state import State
from keras_vit.train.strategy import cut, on_gpu

GROWTH_STEPS = 2000  # updates in a row without overflow, after which the loss scale doubles


class Step:
    """Updates the weights once, at the sizes of a stage.

    In this order: the loss of each example, divided by the global batch size; its gradient, one micro-batch after
    another; the sum over micro-batches and replicas; with `sam`, the same again at perturbed weights; clipping by the
    global norm; one update of the optimizer and of batch norms; the moving average. If the gradient is not finite, the
    update and the average are skipped if the recipe says so, or if the loss scale was too large.
    """

    def __init__(
        self, recipe: Recipe, state: State, strategy, span: Span, cores: int = 1, terms: ClassTerms = NO_TERMS
    ):
        self.recipe, self.state, self.strategy, self.cores = recipe, state, strategy, cores
        self.variables, self._averages = trained_in(span, state)
        self.moving = moving_averages(state.model)
        state.optimizer.begin = span.optimizer_begin
        self._forward = Forward(state.model, self.variables, span, recipe.recompute)
        self._overrides = training_overrides([*layers_of(state.model), *self._forward.own_layers])
        self._task = task_of(recipe, span.input_shape, terms)
        self._seeds = [variable for variable in state.model.variables if "seed_generator" in variable.path]
        # On GPUs XLA compiles the gradient of each replica, not the exchange. With cores a part is traced once.
        jit, self._part = True if on_gpu() else None, self._of_part
        if jit or cores > 1:
            self._part = tf.function(self._part, jit_compile=jit, autograph=False)
        self._early = early_casts(state.model, self.variables)
        self._guarded = recipe.nonfinite == "skip" or state.scale is not None

    def __call__(self, images, targets):
        """Update the weights from every replica's part of a batch.

        Returns:
            The loss, 1.0 if the update was made, and 1.0 if the loss or the gradient was not finite.
        """
        step = tf.identity(self.state.optimizer.iterations.value)
        losses, gradients, norm, moving = self.strategy.run(self._gradients, args=(images, targets))
        loss, norm = self._first(losses), self._first(norm)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)
        if self._guarded:
            tf.cond(finite, lambda: self._update(losses, gradients, norm, moving, step), self._skip)
        else:
            self._update(losses, gradients, norm, moving, step)
        wrong = ~finite if self.state.scale is None else self._rescale(finite, loss)
        made = tf.cast(finite, tf.float32)
        release_gradients(tf.compat.v1.get_default_graph())  # of the sums over replicas
        return tf.where(finite, loss, 0.0), made, tf.cast(wrong, tf.float32)

    def _gradients(self, images, targets):
        """Return, on a replica, the loss of the global batch, its gradient with its norm, and the moving averages."""
        replica = tf.distribute.get_replica_context()
        values = [tf.convert_to_tensor(variable.value) for variable in self.variables]
        loss, gradients, moving = self._summed(values, images, targets, replica)
        if self.recipe.optimizer.sam:
            radius = self.recipe.optimizer.sam / tf.maximum(global_norm(gradients), 1e-12)
            up = [value + radius * gradient for value, gradient in zip(values, _wide(gradients), strict=True)]
            _, gradients, _ = self._summed(up, images, targets, replica)
        return loss, gradients, global_norm(gradients), moving

    def _summed(self, values, images, targets, replica):
        """Return loss, gradient and moving averages over all replicas. Each replica computes `accumulate` parts.

        Gradients are float32. Gradients of `early_casts` are bfloat16 with one part, one core and no strategy.
        """
        parts = self.recipe.optimizer.accumulate
        if parts == 1:
            loss, gradients, moving = self._at_once(values, images, targets, 0, replica.replica_id_in_sync_group)
            if tf.distribute.has_strategy():
                gradients = _wide(gradients)
        else:
            split = lambda x: tf.reshape(x, (parts, -1, *x.shape[1:]))  # noqa: E731
            images, targets = split(images), split(targets)

            def add(part, loss, gradients, moving):
                number = replica.replica_id_in_sync_group
                more, slopes, new = self._at_once(values, images[part], targets[part], part, number)
                sums = [
                    [a + b for a, b in zip(*pair, strict=True)] for pair in ((gradients, _wide(slopes)), (moving, new))
                ]
                return part + 1, loss + more, *sums

            zeros = [[tf.zeros(x.shape, x.dtype) for x in like] for like in (values, self.moving)]
            first = (tf.constant(0), tf.zeros(()), *zeros)
            # One part at a time; otherwise all parts would be in memory together.
            _, loss, gradients, moving = tf.while_loop(
                lambda part, *_: part < parts, add, first, parallel_iterations=1, maximum_iterations=parts
            )
            moving = [value / parts for value in moving]
        if moving:
            moving = replica.all_reduce(tf.distribute.ReduceOp.MEAN, moving)
        total = lambda x: replica.all_reduce(tf.distribute.ReduceOp.SUM, x)  # noqa: E731
        loss, gradients = total(loss), total(gradients)
        if self.state.scale is not None:
            gradients = [gradient / tf.convert_to_tensor(self.state.scale)[0] for gradient in gradients]
        return loss, gradients, moving

    def _at_once(self, values, images, targets, part, replica):
        """Return loss, gradient and moving averages of a part; with several cores, over the parts of the cores."""
        if self.cores == 1:
            return self._part(values, images, targets, part, replica)
        numbers = tf.unstack(part * self.cores + tf.range(self.cores))  # each Python int would be traced again
        pieces = zip(cut((images, targets), self.cores), numbers, strict=True)
        results = [self._part(values, *piece, number, replica) for piece, number in pieces]
        losses, gradients, moving = zip(*results, strict=True)
        return tf.add_n(losses), [tf.add_n(each) for each in zip(*map(_wide, gradients), strict=True)], mean_of(moving)

    def _of_part(self, values, images, targets, part, replica):
        step = tf.cast(self.state.optimizer.iterations.value, tf.int64)
        states = dropout_states(self._seeds, self.recipe.seed, step)
        parts = self.recipe.optimizer.accumulate * self.cores
        whole = parts * self.strategy.num_replicas_in_sync == 1
        uniform = None if whole else uniform_of_part(tf.cast(replica, tf.int32) * parts + part)
        values = [tf.cast(v, tf.bfloat16) if early else v for v, early in zip(values, self._early, strict=True)]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            with use_random_values(uniform), overriding(self._overrides):
                outputs, moving = self._forward.with_moving(values, states, *self._task.inputs(images, targets))
            losses = self._task.losses(outputs, images, targets)
            loss = tf.reduce_sum(losses) / self.recipe.data.batch_size
            scaled = loss if self.state.scale is None else loss * tf.convert_to_tensor(self.state.scale)[0]
        with overriding(self._overrides):  # the backward pass recomputes layers
            gradients = tape.gradient(scaled, values, unconnected_gradients="zero")
        release_gradients(tf.compat.v1.get_default_graph())  # else many runs in one process would fill the memory
        return loss, gradients, moving

    def _update(self, losses, gradients, norm, moving, step):
        average, scale = self.state.average, clip_scale(norm, self.recipe.optimizer.clip_norm)
        self.strategy.run(self._apply, args=(losses, gradients, scale))
        assign(self.moving, moving, self.strategy)
        if average is not self.state.model:
            decay = self.recipe.average.decay
            averages = [*self._averages, *moving_averages(average)]
            average_towards(averages, [*self.variables, *self.moving], decay, step, self.strategy)

    def _apply(self, loss, gradients, scale):
        # Weight decay and the step count do not depend on the batch; without this they would apply to a failed batch.
        with tf.control_dependencies([loss]):
            self.state.optimizer.apply_scaled(gradients, self.variables, scale)

    def _skip(self):
        """Count the step and change nothing else."""
        self.strategy.run(lambda: self.state.optimizer.iterations.assign_add(1))

    def _rescale(self, finite, loss):
        """Update the loss scale as Keras's `LossScaleOptimizer` does; return whether the loss itself was not finite."""
        scale, good = tf.unstack(tf.convert_to_tensor(self.state.scale))
        grow = good + 1.0 >= GROWTH_STEPS
        next_scale = tf.where(grow, [scale * 2.0, 0.0], [scale, good + 1.0])
        self.state.scale.assign(tf.where(finite, next_scale, [tf.maximum(scale / 2.0, 1.0), 0.0]))
        return ~tf.math.is_finite(loss) | (~finite & (scale <= 1.0))

    def _first(self, value):
        return self.strategy.experimental_local_results(value)[0]


def trained_in(span: Span, state: State) -> tuple[list, list]:
    """Return the variables that are trained in a stage, and their moving averages."""
    if not span.head_only:
        return state.trained, state.averages
    return head_variables(state.trained), head_variables(state.averages)


def early_casts(model, variables) -> list[bool]:
    """Return for each variable whether it is cast to bfloat16 before the forward pass.

    The gradients of these kernels, of dense layers in bfloat16, then stay in bfloat16; a cast to float32 would be
    another pass and twice the memory. On GPUs and TPUs XLA removes the casts.
    """
    layers = [layer for layer in layers_of(model) if isinstance(layer, Dense)]
    kernels = {id(stored_kernel(layer)) for layer in layers if layer.compute_dtype == "bfloat16" and not by_xla()}
    return [id(variable) in kernels for variable in variables]


def _wide(gradients):
    """Cast gradients to float32."""
    return [tf.cast(gradient, tf.float32) for gradient in gradients]


def compiled_steps(recipe: Recipe, state: State, strategy, span: Span, cores: int = 1, terms: ClassTerms = NO_TERMS):
    """Return a compiled function (iterator of batches, count) that makes and counts `count` updates."""
    # An update has no Python control flow; AutoGraph would spend seconds of the first step to look for it.
    update = tf.autograph.experimental.do_not_convert(Step(recipe, state, strategy, span, cores, terms))
    iterations = state.optimizer.iterations

    @tf.function
    def steps(iterator, count):
        for _ in tf.range(count):
            # One update after another: where the data fails, all earlier updates are complete.
            tf.autograph.experimental.set_loop_options(parallel_iterations=1)
            loss, made, wrong = update(*next(iterator))
            state.counters.count(loss, made, wrong, tf.identity(iterations.value))

    return steps


def average_towards(average: list, variables: list, decay: float, step, strategy) -> None:
    """Move each average a step towards its variable: average -= (1 - d) * (average - variable).

    d is `decay`, but at step t, from 0, at most (1 + t) / (10 + t), so that the initial weights are forgotten.
    """
    step = tf.cast(step, tf.float32)
    rest = 1.0 - tf.minimum(decay, (1.0 + step) / (10.0 + step))
    for averaged, variable in zip(average, variables, strict=True):
        strategy.extended.update(
            averaged.value, lambda a, v: a.assign_sub(tf.cast(rest, a.dtype) * (a - v)), args=(variable.value,)
        )


def dropout_states(seeds, seed: int, step) -> list:
    """Return (variable, value) of every dropout's state, which depends only on (seed, step, layer).

    The values that an example gets depend on its place in the whole batch (`train/masks.py`).
    """
    # The two zeros are replica and part of runs on one device; they keep old runs resumable.
    states = [seed_pair(seed, step, layer, 0, 0) for layer in range(len(seeds))]
    # 31 bits: Keras passes its seeds to TensorFlow as int32.
    return [(s, tf.bitwise.bitwise_and(state, 2**31 - 1)) for s, state in zip(seeds, states, strict=True)]
