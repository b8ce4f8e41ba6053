"""One update of the weights, on every replica.

B batch, K classes.
"""

import keras
import tensorflow as tf

from keras_vit.data.augment import seed_pair
from keras_vit.train.evaluate import example_losses, logits_model
from keras_vit.train.optimizer import average_towards, clip_by_norm
from keras_vit.train.recipe import Recipe
from keras_vit.train.state import State


def compiled_steps(recipe: Recipe, state: State, strategy):
    """A compiled function (iterator of batches, count) -> sum of the losses of so many updates.

    Micro-steps in this order: each example's loss over the global batch, gradients, sum over the replicas, clipping
    by the global norm, one update of the optimizer, the average.

    Args:
        recipe: of the run.
        state: of `first_state`.
        strategy: that the state was made in.
    """
    model, average, optimizer = state.model, state.average, state.optimizer
    logits_of = logits_model(model)
    variables = model.trainable_variables
    seeds = [variable for variable in model.variables if "seed_generator" in variable.path]

    def update(images, targets):
        replica = tf.distribute.get_replica_context()
        step = tf.cast(optimizer.iterations.value, tf.int64)
        with tf.GradientTape() as tape, _dropout_seeds(seeds, recipe.seed, step, replica.replica_id_in_sync_group):
            losses = example_losses(recipe.loss, targets, logits_of(images, training=True))
            loss = tf.reduce_sum(losses) / recipe.data.batch_size
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, _ = clip_by_norm(gradients, recipe.optimizer.clip_norm)
        optimizer.apply(gradients, variables)
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, loss)

    @tf.function
    def steps(iterator, count):
        total = tf.zeros((), tf.float64)  # so that it does not hang on how the updates are grouped
        for _ in tf.range(count):
            step = tf.identity(optimizer.iterations.value)
            loss = strategy.run(update, args=next(iterator))
            total += tf.cast(strategy.experimental_local_results(loss)[0], tf.float64)
            if average is not model:
                average_towards(average.trainable_variables, variables, recipe.average.decay, step, strategy)
        return total

    return steps


def _dropout_seeds(seeds, seed: int, step, replica):
    """A scope in which the state of every dropout hangs on (recipe, step, layer, replica) and is left unchanged."""
    states = [seed_pair(seed, step, layer, replica) for layer in range(len(seeds))]
    # 31 bits: Keras passes its seeds to TensorFlow as int32.
    mapping = [(s, tf.bitwise.bitwise_and(state, 2**31 - 1)) for s, state in zip(seeds, states, strict=True)]
    return keras.StatelessScope(state_mapping=mapping)
