"""The training run: build, resume, step, evaluate, save."""

import contextlib
import os
import re
import time
from pathlib import Path

import tensorflow as tf

from keras_vit.data.broken import DATA_ERRORS, naming_broken_files
from keras_vit.tasks.masked import finished_models
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.datasets import Datasets
from keras_vit.train.interrupt import Interrupt
from keras_vit.train.left_out import known_broken, remember_broken, remembering_broken
from keras_vit.train.lock import locked
from keras_vit.train.log.pictures import Pictures
from keras_vit.train.log.report import Report
from keras_vit.train.log.speed import Profile, Speed
from keras_vit.train.log.summary import summarise
from keras_vit.train.measure import Measure
from keras_vit.train.process import record_process
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.inputs import check_sizes
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import Devices, choose
from keras_vit.train.workdir import claim, find_summary, require_same_rates, save_model, write_summary

CALL_SECONDS = 1.0  # duration of one call from Python: short enough for progress and interruption


def train(
    recipe: Recipe,
    workdir: str | os.PathLike,
    data_dir: str | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
    profile: bool = False,
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

    Returns:
        The content of `summary.json`; see `keras_vit.train.log.summary`.

    Raises:
        FileNotFoundError: the data or the weights are absent.
        FloatingPointError: the loss or its gradient is no longer finite.
        OSError: a checkpoint, the metrics or the model cannot be written; older checkpoints are intact. Or another
            worker stopped (`ConnectionError`).
        SystemExit: Ctrl-C (130) or SIGTERM (143), to any worker; the state has been saved.
        ValueError: an argument is out of range, a data file is broken or gone, a batch does not fit into memory, or the
            workdir belongs to another run.
    """
    finished = find_summary(workdir, recipe)
    if finished is not None:
        return finished
    check_sizes(recipe)
    devices = choose(strategy, recipe.data.batch_size, recipe.optimizer.accumulate, tpu)
    # The signal handler is set after the workers have connected, during which TensorFlow handles SIGTERM.
    lock = locked(workdir) if devices.chief else contextlib.nullcontext()  # the other workers share the chief's folder
    with lock, devices.naming_lost_workers(), Interrupt() as interrupt:
        return _run(recipe, Path(workdir), data_dir, devices, profile, interrupt)


@contextlib.contextmanager
def _naming_memory(batch: int):
    """Turn TensorFlow's out-of-memory error into a ValueError that says what needs less memory."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        reason = re.search(r"(OOM|Out of memory|failed to allocate).*", str(error.message))
        if reason is None:  # an error of a file or a disk
            raise
        raise ValueError(
            f"data.batch_size expected a batch that there is memory for, received {batch} ({reason[0].strip()}); a "
            "smaller one, a larger optimizer.accumulate or recompute=true take less."
        ) from error


def _run(
    recipe: Recipe, workdir: Path, data_dir: str | None, devices: Devices, profile: bool, interrupt: Interrupt
) -> dict:
    directory, batch = data_dir or recipe.data.directory, recipe.data.batch_size
    data = Datasets.open(recipe, data_dir, known_broken(workdir))
    total, report_steps = data.steps, data.report_steps

    state = first_state(recipe, data.train.labels, total, devices.strategy)
    checkpoints = Checkpoints(workdir / "checkpoints", recipe.checkpoint.keep, state.variables(), devices.chief)
    require_same_rates(workdir, data, max(checkpoints.steps(), default=0))
    devices.require_same_step(0)  # all workers have read the folder before the chief changes it
    if devices.chief:
        claim(workdir, recipe, data.facts)  # not earlier: a mistake in the recipe or the data must not claim the folder
        remember_broken(workdir, directory, data.left_out)
        checkpoints.tidy()
    devices.require_same_step(0)  # the chief has changed it before the others read it
    step = checkpoints.restore() or 0
    devices.require_same_step(step)
    if devices.chief:
        checkpoints.set_aside(step)
        record_process(workdir, devices, step)
    counters = state.counters
    counters.load()

    measure, pictures = Measure(recipe, state.average, data, devices), Pictures(recipe, state.average, data)
    speed = Speed(counters.images, counters.images_seconds)
    profiler = Profile(workdir / "profile" if profile and devices.chief else None)
    spans = [span for span in spans_of(recipe, total) if span.end > step]
    span = run_steps = iterator = result = None
    saved = time.perf_counter()
    begun = saved - counters.seconds

    def save():
        counters.seconds = time.perf_counter() - begun
        counters.images, counters.images_seconds = speed.images, speed.seconds
        counters.store()
        checkpoints.save(step)

    with (
        _naming_memory(batch),
        remembering_broken(workdir, directory),
        naming_broken_files(*data.splits),
        Report(recipe, workdir, data, step, devices.chief) as report,
    ):
        report.begin(state.model.count_params(), state.rate.schedule)
        stop, count, _ = devices.agree(interrupt.asked, 1, False)
        while step < total and not stop:
            if span is None or step == span.end:
                span = spans.pop(0)
                run_steps = compiled_steps(recipe, state, devices.strategy, span, devices.cores)
                iterator = iter(devices.spread(data.batches(span.input_shape, step), batch))
                speed.restart()
                count = 1
            count = min(count, report_steps - step % report_steps, span.end - step, pictures.remaining(step))
            try:
                with profiler.around():
                    speed.timed(run_steps, iterator, tf.constant(count), images=count * batch)
            except DATA_ERRORS:
                step = int(state.optimizer.iterations.numpy())  # updates run one after another, so each is complete
                if devices.workers == 1 and not (recipe.nonfinite == "stop" and counters.skipped):
                    save()
                    report.say(
                        f"the state of step {step} of {total} is saved; the same command goes on from there, once the "
                        "file is repaired or removed, or with --set data.on_error=skip."
                    )
                raise
            step += count
            rate = float(state.rate(step - 1))
            if recipe.nonfinite == "stop" and counters.skipped:
                raise FloatingPointError(
                    "loss expected a finite number with a finite gradient, received another one at step "
                    f"{counters.first_wrong}; the last good state is that of step {(checkpoints.steps() or [0])[-1]}."
                )
            report.show(step, counters, rate, speed.of_stage or speed.of_run)
            if pictures.is_due(step) and devices.chief:
                report.picture(step, "journey", pictures(step))
            if step % report_steps == 0 or step == total:
                counters.seconds = time.perf_counter() - begun
                report.train(step, counters, rate, speed.of_stage or speed.of_run)
                for split in measure.due(step):
                    result = measure(split)
                    report.evaluation(step, split, result)
                    if recipe.checkpoint.best and split == measure.on_the_way and result["accuracy"] > counters.best:
                        counters.best = result["accuracy"]
                        if devices.chief:
                            save_model(finished_models(recipe, state.average)["model.keras"], workdir / "best.keras")
            due = time.perf_counter() - saved >= recipe.checkpoint.seconds
            stop, count, due = devices.agree(interrupt.asked, speed.images_in(CALL_SECONDS) // batch or 1, due)
            if step == total or stop or due:
                save()
                saved = time.perf_counter()
        if step < total:
            report.say(f"stopped at step {step} of {total}; the same command goes on from there.")
            raise SystemExit(interrupt.code)
        result = result or measure("test")

    summary = summarise(recipe, data, state, result, speed.of_run, devices.replicas)
    if devices.chief:
        for name, model in finished_models(recipe, state.average).items():
            save_model(model, workdir / name)
        write_summary(workdir / "summary.json", summary)
    return summary
