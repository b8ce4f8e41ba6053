"""The training run: build, resume, step, evaluate, save."""

import math
import os
import time
from pathlib import Path

import tensorflow as tf

from keras_vit.data.pipeline import evaluation_batches, naming_broken_files, steps_per_epoch, training_batches
from keras_vit.data.sources import open_split
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.evaluate import evaluate, evaluator
from keras_vit.train.interrupt import Interrupt
from keras_vit.train.progress import Progress
from keras_vit.train.recipe import Recipe
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import choose
from keras_vit.train.workdir import Metrics, claim, find_summary, save_model, write_summary

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
    finished = find_summary(workdir, recipe)
    if finished is not None:
        return finished
    workdir, batch = Path(workdir), recipe.data.batch_size
    directory = data_dir or recipe.data.directory
    examples = open_split(recipe.data.source, recipe.data.train_split, directory)
    test = open_split(recipe.data.source, recipe.data.test_split, directory)
    epoch_steps = steps_per_epoch(examples, batch)
    total = epoch_steps * recipe.epochs
    devices = choose(strategy, batch)

    state = first_state(recipe, examples.labels, total, devices)
    claim(workdir, recipe)  # not before: a mistake in the recipe or the data must not lock the folder
    checkpoints = Checkpoints(workdir / "checkpoints", recipe.checkpoint.keep, state.variables())
    step = checkpoints.restore() or 0
    seconds, loss_sum = (float(number) for number in state.spent.numpy())
    metrics = Metrics(workdir / "metrics.jsonl", step)

    inputs = {
        "batch_size": batch,
        "input_shape": recipe.model.input_shape,
        "scale": not recipe.model.include_preprocessing,
    }
    batches = training_batches(examples, recipe.augment, epochs=recipe.epochs, seed=recipe.seed, start=step, **inputs)
    iterator = iter(devices.experimental_distribute_dataset(batches))
    run_steps = compiled_steps(recipe, state, devices)
    test_batches, test_sums = evaluation_batches(test, **inputs), evaluator(state.average, recipe.loss)
    result = None

    speed = _Speed()
    saved = time.perf_counter()
    begun = saved - seconds
    with (
        naming_broken_files(examples, test),
        Interrupt() as interrupt,
        Progress(total, recipe.epochs, step) as progress,
    ):
        progress.say(
            f"{recipe.name}: {examples.count:,} examples of {len(examples.labels)} classes to train on, "
            f"{test.count:,} to test on; {state.model.count_params():,} parameters; {step:,} of {total:,} steps done"
        )
        while step < total:
            count = min(speed.images_in(CALL_SECONDS) // batch or 1, epoch_steps - step % epoch_steps)
            loss_sum += speed.timed(run_steps, iterator, tf.constant(count), images=count * batch)
            step += count
            epoch, done = (step - 1) // epoch_steps + 1, (step - 1) % epoch_steps + 1
            if not math.isfinite(loss_sum):
                raise FloatingPointError(
                    f"loss expected a finite number, received {loss_sum} by step {step}; the last good state is that "
                    f"of step {(checkpoints.steps() or [0])[-1]}."
                )
            progress.show(step, epoch, loss_sum / done, speed.images_per_second)
            if done == epoch_steps:
                metrics.write(
                    step, "train", loss=loss_sum / done, learning_rate=float(state.rate(step - 1)),
                    images_per_second=speed.images_per_second,
                )  # fmt: skip
                loss_sum = 0.0
                if step == total or (recipe.evaluate.every and epoch % recipe.evaluate.every == 0):
                    result = evaluate(state.average, test_batches, sums=test_sums)
                    metrics.write(step, "test", loss=result["loss"], accuracy=result["accuracy"])
            now, stop = time.perf_counter(), interrupt.asked
            if step == total or stop or now - saved >= recipe.checkpoint.seconds:
                state.spent.assign([now - begun, loss_sum])
                checkpoints.save(step)
                saved = time.perf_counter()
            if stop and step < total:
                progress.say(f"stopped at step {step} of {total}; the same command goes on from there.")
                raise SystemExit(0)

    result = result or evaluate(state.average, test_batches, sums=test_sums)
    save_model(state.average, workdir / "model.keras")
    summary = {
        "recipe": recipe.name,
        "accuracy": result["accuracy"],
        "loss": result["loss"],
        "test_examples": result["examples"],
        "train_examples": examples.count,
        "seconds": round(float(state.spent.numpy()[0]), 3),
        "images_per_second": round(speed.images_per_second, 1),
        "parameters": state.model.count_params(),
        "steps": total,
        "epochs": recipe.epochs,
        "replicas": devices.num_replicas_in_sync,
        "labels": list(examples.labels),
    }
    return write_summary(workdir / "summary.json", summary)


class _Speed:
    """Images a second, the first call of a run left out, since it compiles."""

    def __init__(self):
        self._calls, self._images, self._seconds = 0, 0, 0.0

    def timed(self, function, *args, images: int) -> float:
        """The result of a call that works on so many images."""
        begun = time.perf_counter()
        result = float(function(*args))
        if self._calls:
            self._images += images
            self._seconds += time.perf_counter() - begun
        self._calls += 1
        return result

    @property
    def images_per_second(self) -> float:
        """0.0 while it is unknown."""
        return self._images / self._seconds if self._images else 0.0

    def images_in(self, seconds: float) -> int:
        """How many images so many seconds are enough for."""
        return int(self.images_per_second * seconds)
