"""The training run: build, resume, step, evaluate, save."""

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

import keras
import tensorflow as tf

from keras_vit.data.broken import DATA_ERRORS, naming_broken_files
from keras_vit.preprocessing.image_spec import preprocessing_of
from keras_vit.tasks.masked import finished_models
from keras_vit.train.cached_features import on_features
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.datasets import Datasets
from keras_vit.train.interrupt import Interrupt
from keras_vit.train.left_out import known_broken, remember_broken, remembering_broken
from keras_vit.train.lock import locked
from keras_vit.train.log.notebook import LivePlot
from keras_vit.train.log.pictures import Pictures
from keras_vit.train.log.report import Report
from keras_vit.train.log.speed import Profile, Speed
from keras_vit.train.log.summary import summarise
from keras_vit.train.log.trackers import tracker
from keras_vit.train.measure import Measure
from keras_vit.train.process import record_process
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.inputs import check_selection, check_sizes
from keras_vit.train.recipe.labels import check_labels
from keras_vit.train.recipe.updates import head_steps
from keras_vit.train.result import save_result
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import Devices, choose, naming_lack_of_memory
from keras_vit.train.workdir import claim, find_summary, require_same_rates, save_model, write_summary

CALL_SECONDS = 1.0  # duration of one call from Python: short enough for progress and interruption


def train(
    recipe: Recipe,
    workdir: str | os.PathLike,
    data_dir: str | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
    profile: bool = False,
    live_plot: bool = False,
    log: str | None = None,
) -> dict:
    """Train the model of a recipe. A second call with the same arguments resumes a stopped run.

    On the CPUs of one machine the final weights are bit-identical however often the run was stopped. TensorFlow's GPU
    kernels are not deterministic unless `tf.config.experimental.enable_op_determinism()` was called. Order of resume:

    1. `recipe.json` in the workdir must equal the recipe, and `data.json` the data. If `summary.json` exists, the run
       is finished.
    2. Model, average and optimizer are built from the recipe's seed, as for a new run.
    3. The newest readable checkpoint restores their variables, the loss scale, the counters and the step. Newer,
       unreadable checkpoints are renamed.
    4. Lines of later steps are removed from `metrics.jsonl`.
    5. The step is compiled for the stage of the next update.
    6. The data continues at that step: order, augmentation and dropout depend only on (seed, epoch or step, example).

    Args:
        recipe: the recipe.
        workdir: folder of the run; see `keras_vit.train.workdir`. All workers must share it.
        data_dir: replaces the directory of the recipe's data.
        strategy: `auto`, `one`, `cores`, `mirrored`, `multiworker` or `tpu`; see `keras_vit.train.strategy.choose`.
        tpu: name or address of a TPU.
        profile: whether to write a TensorBoard profile of a few steps to `workdir/profile`.
        live_plot: whether to draw loss and accuracy while the run goes on. This needs a notebook and Matplotlib.
        log: `mlflow` or `wandb`, which then follow the run; see `keras_vit.train.log.trackers`.

    Returns:
        The content of `summary.json`; see `keras_vit.train.log.summary`.

    Raises:
        FileNotFoundError: the data or the weights are absent.
        FloatingPointError: the loss or its gradient is no longer finite.
        OSError: a checkpoint, the metrics or the model cannot be written; older checkpoints are intact. Or another
            worker stopped (`ConnectionError`).
        SystemExit: Ctrl-C (130) or SIGTERM (143), to any worker; the state has been saved.
        ValueError: an argument is out of range, a data file is broken or missing, a batch does not fit into memory, or
            the workdir belongs to another run. Or `live_plot` is set outside of a notebook.
    """
    finished = find_summary(workdir, recipe)
    if finished is not None:
        return finished
    check_sizes(recipe)
    check_selection(recipe)
    check_labels(recipe)
    followers = [LivePlot(Path(workdir) / "metrics.jsonl")] if live_plot else []
    followers += [tracker(log, recipe, Path(workdir))] if log else []
    devices = choose(strategy, recipe.data.batch_size, recipe.optimizer.accumulate, tpu)
    # The signal handler is set after the workers have connected, during which TensorFlow handles SIGTERM.
    lock = locked(workdir) if devices.chief else contextlib.nullcontext()  # the other workers share the chief's folder
    with lock, devices.naming_lost_workers(), Interrupt() as interrupt:
        return Run(recipe, Path(workdir), data_dir, devices, profile, followers).train(interrupt)


class Run:
    """A training run: built from its recipe, then resumed from its newest checkpoint. See `train`."""

    def __init__(
        self, recipe: Recipe, workdir: Path, data_dir: str | None, devices: Devices, profile: bool = False, followers=()
    ):  # fmt: skip
        self.recipe, self.workdir, self.devices = recipe, workdir, devices
        self.directory, self.batch_size = data_dir or recipe.data.directory, recipe.data.batch_size
        self.data = Datasets.open(recipe, data_dir, known_broken(workdir))
        self.steps = self.data.steps
        self.state = first_state(recipe, self.data.train.labels, self.steps, devices.strategy, self.data.terms)
        self.counters, average = self.state.counters, self.state.average
        self.data = replace(self.data, spec=preprocessing_of(average))
        self.checkpoints = Checkpoints(
            workdir / "checkpoints", recipe.checkpoint.keep, self.state.variables(), devices.chief
        )
        self.step = self._resume()
        self.counters.load()
        self.measure = Measure(recipe, average, self.data, devices)
        self.pictures = Pictures(recipe, average, self.data)
        self.speed = Speed(self.counters.images, self.counters.images_seconds)
        self.followers = followers if devices.chief else ()
        self.profile = Profile(workdir / "profile" if profile and devices.chief else None)
        self.stages = [span for span in spans_of(recipe, self.steps) if span.end > self.step]
        self.learning = self.state  # of the head only, with cached features
        self.stage = self.result = None
        self.saved = time.perf_counter()
        self.begun = self.saved - self.counters.seconds

    def _resume(self) -> int:
        """Claim the folder, restore the newest checkpoint, and return its step."""
        devices, checkpoints = self.devices, self.checkpoints
        require_same_rates(self.workdir, self.data, max(checkpoints.steps(), default=0))
        devices.require_same_step(0)  # all workers have read the folder before the chief changes it
        if devices.chief:
            claim(self.workdir, self.data)  # not earlier: a mistake in the recipe or the data must not claim the folder
            remember_broken(self.workdir, self.directory, self.data.left_out)
            checkpoints.tidy()
        devices.require_same_step(0)  # the chief has changed it before the others read it
        step = checkpoints.restore() or 0
        devices.require_same_step(step)
        if devices.chief:
            checkpoints.set_aside(step)
            record_process(self.workdir, devices, step)
        return step

    def train(self, interrupt: Interrupt) -> dict:
        """Make the remaining updates and return the content of `summary.json`."""
        devices, recipe = self.devices, self.recipe
        with (
            naming_lack_of_memory(self.batch_size),
            remembering_broken(self.workdir, self.directory),
            naming_broken_files(*self.data.splits),
            Report(recipe, self.workdir, self.data, self.step, devices.chief, self.followers) as self.report,
        ):
            self.report.begin(self.state.model.count_params(), self.state.rate)
            self._cache_features(interrupt)
            stop, count, _ = devices.agree(interrupt.requested, 1, False)
            while self.step < self.steps and not (stop or self._stops_early):
                self._update(count)
                self._report()
                count = self.speed.images_in(CALL_SECONDS) // self.batch_size or 1
                due = time.perf_counter() - self.saved >= recipe.checkpoint.seconds
                stop, count, due = devices.agree(interrupt.requested, count, due)
                if self.step == self.steps or self._stops_early or stop or due:
                    self._save()
                    self.saved = time.perf_counter()
            if self.step < self.steps and not self._stops_early:
                self.report.say(f"stopped at step {self.step} of {self.steps}; the same command goes on from there.")
                raise SystemExit(interrupt.code)
            self._test()
        return self._finish()

    def _cache_features(self, interrupt: Interrupt) -> None:
        """Train on cached features from now on, if the recipe says so."""
        say, stopped = self.report.say, lambda: interrupt.requested
        found = on_features(self.state, self.data, self.workdir, self.devices.workers, say, stopped)
        if found is None:
            return
        self.learning, self.data = found
        self.measure = Measure(self.recipe, self.learning.average, self.data, self.devices)
        self.stages = [replace(span, input_shape=self.learning.model.input_shape[1:]) for span in self.stages]

    @property
    def _stops_early(self) -> bool:
        patience = self.recipe.evaluate.patience
        return 0 < patience <= self.counters.waited and self.step > head_steps(self.recipe, self.steps)

    def _test(self) -> None:
        """Evaluate the result of the run on the test split: the last weights, or the best ones with `use_best`."""
        if self._stops_early:
            self.report.say(f"stopped early at step {self.step:,} of {self.steps:,}: no {self.measure.better} in "
                            f"{self.recipe.evaluate.patience} evaluations")  # fmt: skip
        if self.recipe.checkpoint.use_best:
            best = keras.saving.load_model(self.workdir / "best.keras", compile=False)
            self.state.average.set_weights(best.get_weights())
            self.measure.take_thresholds(best)
        elif self.result is not None and not self._stops_early:
            return  # of the test split, after the last step
        self.result = self.measure("test")
        if not self.report.has(self.step, "test"):  # from before an interruption
            self.report.evaluation(self.step, "test", self.result)

    def _begin_stage(self) -> None:
        """Compile the steps of the next stage, and open its data."""
        self.stage, devices = self.stages.pop(0), self.devices
        state, strategy, cores = self.learning, devices.strategy, devices.cores
        self.run_steps = compiled_steps(self.recipe, state, strategy, self.stage, cores, self.data.terms)
        if self.stage.restarts and self.step == self.stage.begin:
            self.state.optimizer.restart()
            self.counters.waited = 0.0
            self.report.say(f"step {self.step:,} of {self.steps:,}: from here on all weights are trained")
        batches = self.data.batches(self.stage.input_shape, self.step)
        self.iterator = iter(devices.spread(batches, self.batch_size))
        self.speed.restart()

    def _update(self, count: int) -> None:
        """Make at most `count` updates: fewer before a report, a picture or the end of a stage."""
        if self.stage is None or self.step == self.stage.end:
            self._begin_stage()
            count = 1
        to_report = self.data.report_steps - self.step % self.data.report_steps
        count = min(count, to_report, self.stage.end - self.step, self.pictures.remaining(self.step))
        try:
            with self.profile.around():
                self.speed.timed(self.run_steps, self.iterator, tf.constant(count), images=count * self.batch_size)
        except DATA_ERRORS:
            self._save_complete_updates()
            raise
        self.step += count
        if self._diverged():
            raise FloatingPointError(
                "loss expected a finite value with a finite gradient, received another one at step "
                f"{self.counters.first_wrong}; the last good state is of step "
                f"{(self.checkpoints.steps() or [0])[-1]}."
            )

    def _diverged(self) -> bool:
        return self.recipe.nonfinite == "stop" and bool(self.counters.skipped)

    def _save_complete_updates(self) -> None:
        """Save the state before the batch whose data could not be read."""
        self.step = int(self.state.optimizer.iterations.numpy())  # updates run one after another, so each is complete
        if self.devices.workers == 1 and not self._diverged():
            self._save()
            self.report.say(
                f"the state of step {self.step} of {self.steps} is saved; the same command goes on from there, once "
                "the file is repaired or removed, or with --set data.on_error=skip."
            )

    def _report(self) -> None:
        """Report the last updates, and evaluate the model if the recipe says so."""
        step, report = self.step, self.report
        progress = self.counters, float(self.state.rate(step - 1)), self.speed.of_stage or self.speed.of_run
        report.show(step, *progress)
        if self.pictures.is_due(step) and self.devices.chief:
            report.picture(step, "layer_outputs", self.pictures(step))
        if step % self.data.report_steps == 0 or step == self.steps:
            self.counters.seconds = time.perf_counter() - self.begun
            loss, found = self.counters.mean_loss, {}
            report.train(step, *progress)
            for split in self.measure.due(step):
                found[split] = self.result = self.measure(split)
                report.write(step, split, self.result)
                if split == self.measure.on_the_way:
                    self._select(self.result)
            report.epoch(step, loss, found, self.measure.best(self.counters.best))

    def _select(self, result: dict) -> None:
        """Count the evaluations since the best one, and write `best.keras` there if the recipe asks for it."""
        self.counters.waited += 1
        score = self.measure.score(result)
        if score > self.counters.best:
            self.counters.best, self.counters.waited = score, 0.0
            if self.recipe.checkpoint.best and self.devices.chief:
                model = finished_models(self.recipe, self.state.average)["model.keras"]
                save_model(model, self.workdir / "best.keras")

    def _save(self) -> None:
        """Save a checkpoint."""
        self.counters.seconds = time.perf_counter() - self.begun
        self.counters.images, self.counters.images_seconds = self.speed.images, self.speed.seconds
        self.counters.store()
        self.checkpoints.save(self.step)

    def _finish(self) -> dict:
        """Save the models and the summary, and return the summary."""
        summary = summarise(
            self.recipe, self.data, self.state, self.result, self.step, self.speed.of_run, self.devices.replicas
        )
        summary |= self.measure.thresholds
        if self.devices.chief:
            save_result(self.recipe, self.state.average, self.workdir)
            write_summary(self.workdir / "summary.json", summary)
            for follower in self.followers:
                follower.finish()
        return summary
