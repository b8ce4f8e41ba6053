"""The training run: build, resume, step, evaluate, save."""

import os
import time
from pathlib import Path

import keras
import tensorflow as tf

from keras_vit.data.pipeline import evaluation_batches, steps_per_epoch, training_batches, unreadable
from keras_vit.data.sources import open_split
from keras_vit.models.variants import find_variant
from keras_vit.models.vit import build
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.evaluate import evaluate, evaluator
from keras_vit.train.interrupt import Interrupt
from keras_vit.train.optimizer import build_optimizer
from keras_vit.train.progress import Progress
from keras_vit.train.recipe import Recipe
from keras_vit.train.schedule import LearningRate
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import choose
from keras_vit.train.workdir import Metrics, claim, save_model, write_summary
from keras_vit.weights import load_weights

CALL_SECONDS = 1.0  # of updates in one call from Python: often enough to show, and to be interrupted


def train(recipe: Recipe, workdir: str | os.PathLike, data_dir: str | None = None, strategy: str = "auto") -> dict:
    """Train a recipe's model; run again with the same arguments, it goes on where it was stopped.

    The end is the same to the bit however often the run was stopped (on the same machine). Order of resume:

    1. `recipe.json` in the workdir must be this recipe; with a `summary.json` beside it the run is over.
    2. Model, average and optimizer are built from the recipe's seed, as for a new run.
    3. The newest readable checkpoint fills their variables, and says how many steps are done.
    4. `metrics.jsonl` loses the lines of later steps.
    5. The data goes on at that step: order, augmentation and dropout hang on (seed, epoch or step, example) alone.

    Args:
        recipe: what to do.
        workdir: folder of the run; see `keras_vit.train.workdir`.
        data_dir: in place of the directory in the recipe's data.
        strategy: `auto`, `one` or `mirrored`.

    Returns:
        What `summary.json` holds: recipe, loss and accuracy on the test split, numbers of examples, parameters,
        steps and epochs, seconds of training (compiling and evaluations included), images a second, labels.

    Raises:
        FileNotFoundError: the data or the weights are absent.
        FloatingPointError: the loss is no longer finite.
        SystemExit: Ctrl-C or SIGTERM; the state has been saved.
        ValueError: an argument is out of range, or the workdir holds something else.
    """
    finished = claim(workdir, recipe)
    if finished is not None:
        return finished
    workdir = Path(workdir)
    directory = data_dir or recipe.data.directory
    examples, test = (open_split(recipe.data.source, split, directory)
                      for split in (recipe.data.train_split, recipe.data.test_split))  # fmt: skip
    batch = recipe.data.batch_size
    epoch_steps = steps_per_epoch(examples, batch)
    total = epoch_steps * recipe.epochs
    devices = choose(strategy)
    if batch % devices.num_replicas_in_sync:
        raise ValueError(
            f"batch_size expected a multiple of the {devices.num_replicas_in_sync} replicas, received {batch}."
        )
    keras.utils.set_random_seed(recipe.seed)
    with devices.scope():
        model = build_model(recipe, examples.labels)
        average = model
        if recipe.average.decay:
            average = keras.models.clone_model(model)
            average.set_weights(model.get_weights())
        rate = LearningRate(recipe.optimizer.learning_rate, total, recipe.schedule)
        optimizer = build_optimizer(recipe.optimizer, rate, model.trainable_variables)
        spent = tf.Variable([0.0, 0.0], dtype=tf.float64)  # seconds so far; loss so far in this epoch
    state = {"model": model.variables, "optimizer": optimizer.variables}
    state |= {"average": average.variables} if average is not model else {}
    state = {name: [variable.value for variable in variables] for name, variables in state.items()}
    checkpoints = Checkpoints(workdir / "checkpoints", recipe.checkpoint.keep, {**state, "spent": [spent]})
    step = checkpoints.restore() or 0
    metrics = Metrics(workdir / "metrics.jsonl", step)
    inputs = {"batch_size": batch, "input_shape": recipe.model.input_shape}
    inputs |= {"scale": not recipe.model.include_preprocessing}
    batches = training_batches(examples, recipe.augment, epochs=recipe.epochs, seed=recipe.seed, start=step, **inputs)
    if devices.num_replicas_in_sync > 1:
        batches = devices.experimental_distribute_dataset(batches)
    iterator = iter(batches)
    run_steps = compiled_steps(recipe, model, average, optimizer, devices)
    test_batches, test_sums = evaluation_batches(test, **inputs), evaluator(average, recipe.loss)
    result = None

    seconds, loss_sum = spent.numpy()
    begun = saved = time.perf_counter()
    begun -= seconds
    count, speed = 1, _Speed()
    with Interrupt() as interrupt, Progress(total, recipe.epochs, step) as progress:
        while step < total:
            count = min(count, epoch_steps - step % epoch_steps)
            try:
                loss_sum += float(speed.timed(run_steps, iterator, tf.constant(count), images=count * batch))
            except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
                path = unreadable(examples)
                if path is None:
                    raise
                raise ValueError(f"data expected an image file, found none or a broken one at {path!r}.") from error
            step += count
            epoch, done = (step - 1) // epoch_steps + 1, (step - 1) % epoch_steps + 1
            if not tf.math.is_finite(loss_sum):
                raise FloatingPointError(
                    f"loss expected a finite number, received {loss_sum} by step {step}; the last good state is that "
                    f"of step {(checkpoints.steps() or [0])[-1]}."
                )
            progress.show(step, epoch, loss_sum / done, speed.images_per_second)
            if done == epoch_steps:
                metrics.write(step, "train", loss=loss_sum / done, learning_rate=float(rate(step - 1)),
                              images_per_second=speed.images_per_second)  # fmt: skip
                loss_sum = 0.0
                if step == total or (recipe.evaluate.every and epoch % recipe.evaluate.every == 0):
                    result = evaluate(average, test_batches, recipe.loss, test_sums)
                    metrics.write(step, "test", loss=result["loss"], accuracy=result["accuracy"])
            spent.assign([time.perf_counter() - begun, loss_sum])
            if step == total or interrupt.asked or time.perf_counter() - saved >= recipe.checkpoint.seconds:
                checkpoints.save(step)
                saved = time.perf_counter()
            if interrupt.asked and step < total:
                progress.say(f"stopped at step {step} of {total}; the same command goes on from there.")
                raise SystemExit(0)
            count = max(1, int(CALL_SECONDS / speed.seconds_per_image / batch)) if speed.images else 1
    result = result or evaluate(average, test_batches, recipe.loss, test_sums)
    save_model(average, workdir / "model.keras")
    return write_summary(
        workdir / "summary.json",
        {
            "recipe": recipe.name,
            "accuracy": result["accuracy"],
            "loss": result["loss"],
            "test_examples": result["examples"],
            "train_examples": examples.count,
            "seconds": round(float(spent.numpy()[0]), 3),
            "images_per_second": round(speed.images_per_second, 1),
            "parameters": model.count_params(),
            "steps": total,
            "epochs": recipe.epochs,
            "replicas": devices.num_replicas_in_sync,
            "labels": list(examples.labels),
        },
    )


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


class _Speed:
    """Images a second, the first call of each run left out, since it compiles."""

    def __init__(self):
        self.calls, self.images, self.seconds = 0, 0, 0.0

    def timed(self, function, *args, images: int):
        """The result of a call that works on so many images."""
        begun = time.perf_counter()
        result = function(*args).numpy()
        if self.calls:
            self.images += images
            self.seconds += time.perf_counter() - begun
        self.calls += 1
        return result

    @property
    def seconds_per_image(self) -> float:
        return self.seconds / self.images

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds if self.images else 0.0
