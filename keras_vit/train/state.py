"""All that a training run changes: model, average, optimizer, and the run's own counters."""

from dataclasses import dataclass

import keras
import tensorflow as tf

from keras_vit.models.variants import find_variant
from keras_vit.models.vit import build
from keras_vit.train.fused import fuse
from keras_vit.train.optimizer import build_optimizer
from keras_vit.train.recipe import Recipe
from keras_vit.train.schedule import LearningRate
from keras_vit.weights import load_weights


@dataclass(frozen=True)
class State:
    """What a checkpoint holds.

    Args:
        model: that is trained.
        average: that is evaluated and saved: the moving average of the model, or the model itself.
        optimizer: knows the step, too.
        rate: the learning rate over the steps.
        spent: seconds so far, and the sum of the losses of this epoch so far.
    """

    model: keras.Model
    average: keras.Model
    optimizer: keras.optimizers.Optimizer
    rate: LearningRate
    spent: tf.Variable

    def variables(self) -> dict[str, list]:
        """Name -> TensorFlow variables, as `Checkpoints` takes them."""
        parts = {"model": self.model.variables, "optimizer": self.optimizer.variables}
        if self.average is not self.model:
            parts["average"] = self.average.variables
        return {"spent": [self.spent], **{name: [v.value for v in part] for name, part in parts.items()}}


def first_state(recipe: Recipe, labels: tuple[str, ...], steps: int, strategy) -> State:
    """The state that a run starts from: the same one for the same seed.

    Args:
        recipe: of the run.
        labels: names of the classes.
        steps: of the whole run.
        strategy: to make the variables in.
    """
    keras.utils.set_random_seed(recipe.seed)
    with strategy.scope():
        model = average = fuse(build_model(recipe, labels))
        if recipe.average.decay:
            average = keras.models.clone_model(model)
            average.set_weights(model.get_weights())
        rate = LearningRate(recipe.optimizer.learning_rate, steps, recipe.schedule)
        optimizer = build_optimizer(recipe.optimizer, rate, model.trainable_variables)
        spent = tf.Variable([0.0, 0.0], dtype=tf.float64)
    return State(model, average, optimizer, rate, spent)


def build_model(recipe: Recipe, labels: tuple[str, ...]) -> keras.Model:
    """The model that a recipe trains: a classifier of `labels` that starts at zero on top of the recipe's weights."""
    settings = recipe.model
    tag = None if not isinstance(settings.variant, str) else find_variant(settings.variant)[1]
    model = build(
        settings.row,
        input_shape=settings.input_shape,
        pooling=settings.pooling,
        classes=len(labels),
        classifier_activation=recipe.loss.kind,
        patch_size=settings.patch_size,
        representation_size=settings.representation_size,
        dropout_rate=settings.dropout_rate,
        attention_dropout_rate=settings.attention_dropout_rate,
        drop_path_rate=settings.drop_path_rate,
        include_preprocessing=settings.include_preprocessing,
        labels=labels,
        dtype=recipe.precision,
    )
    source = settings.weights or tag
    if source is not None:
        last = "pre_logits" if settings.representation_size else "pooling"
        load_weights(keras.Model(model.inputs, model.get_layer(last).output), source)
    return model
