"""The reports of a run: `metrics.jsonl`, TensorBoard events, progress, and a plot in a notebook."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from keras_vit.train.datasets import Datasets
from keras_vit.train.log.figures import figures_of
from keras_vit.train.log.progress import Progress
from keras_vit.train.recipe import Recipe
from keras_vit.train.workdir import Metrics


class Report:
    """Writes the metrics of a run to its files and the terminal, from `step` on. Only the chief reports.

    `followers` read the metrics file after each line, such as a `LivePlot` or a `Tracker`.
    """

    def __init__(
        self, recipe: Recipe, workdir: Path, data: Datasets, step: int, chief: bool = True, followers: Sequence = ()
    ):
        self._recipe, self._data, self._step, self._chief = recipe, data, step, chief
        if chief:
            self._metrics = Metrics(workdir / "metrics.jsonl", step)
            self._events = Events(workdir / "tensorboard")
        self._followers = followers
        self._progress = Progress(data.steps, data.epochs, step, quiet=not chief)

    def begin(self, parameters: int, rate) -> None:
        """Print the model's number of parameters, the data, the first phase, and what of the schedule was fitted."""
        data = self._data
        self.say(
            f"{self._recipe.name}: {data.train.listing()} to train on, {data.test.count:,} to test on; "
            f"{parameters:,} parameters; {self._step:,} of {data.steps:,} steps done"
        )
        missing = data.left_out
        if missing:
            names = ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)
            self.say(
                f"{len(missing):,} files are left out: {names}; the others keep their order, but the final weights "
                "will differ from a run with these files."
            )
        for name in ("warmup_steps", "cooldown_steps"):
            requested, used = getattr(self._recipe.schedule, name), getattr(rate.schedule, name)
            if requested != used:
                run = "steps after those of the head" if rate.begin else "steps of the run"
                self.say(f"schedule.{name} {requested:,} does not fit into the {rate.total:,} {run}: {used:,} used")
        if self._step < rate.begin:
            self.say(f"the head alone is trained until step {rate.begin:,}, at a rate of "
                     f"{rate.head_first.learning_rate:g}; then all weights, at {rate.base:g}")  # fmt: skip

    def show(self, step: int, counters, rate: float, images_per_second: float) -> None:
        """Show the progress."""
        epoch = (step - 1) // self._data.epoch_steps + 1
        self._progress.show(step, epoch, counters.mean_loss, images_per_second, rate)

    def train(self, step: int, counters, rate: float, images_per_second: float) -> None:
        """Write the training loss since the last report, and reset the counters."""
        values = {"loss": counters.mean_loss, "learning_rate": rate, "images_per_second": images_per_second,
                  "seconds": counters.seconds}  # fmt: skip
        if self._recipe.nonfinite == "skip":
            values["skipped"] = counters.skipped
        self.write(step, "train", values)
        counters.next_report()

    def evaluation(self, step: int, split: str, values: dict) -> None:
        """Write and print the metrics of an evaluation after the run."""
        self.write(step, split, values)
        self.say(f"step {step:,} of {self._data.steps:,}, {split}: {', '.join(_shown(values))}")

    def epoch(self, step: int, loss: float, evaluations: dict[str, dict], best: str) -> None:
        """Print one line about the updates since the last report, and about the evaluations after them.

        Args:
            step: number of updates.
            loss: mean training loss since the last report.
            evaluations: metrics by split.
            best: the best metric so far with its name; empty for none.
        """
        epoch = (step - 1) // self._data.epoch_steps + 1
        parts = [f"train loss {loss:.4f}"]
        parts += [f"{split} {', '.join(_shown(values))}" for split, values in evaluations.items()]
        parts += [f"best {best}"] if best else []
        self.say(f"epoch {epoch}/{self._data.epochs}, step {step:,} of {self._data.steps:,}: {', '.join(parts)}, "
                 f"{self._progress.left(step)} left")  # fmt: skip

    def write(self, step: int, split: str, values: dict) -> None:
        """Write the metrics of a split."""
        if self._chief:
            values = {name: value for name, value in values.items() if name != "examples"}
            self._metrics.write(step, split, **values)
            self._events.write(step, split, **values)
        for follower in self._followers:
            follower.update()

    def has(self, step: int, split: str) -> bool:
        """Return whether the file has the metrics of a split at a step."""
        return self._chief and self._metrics.has(step, split)

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Write a picture, for TensorBoard only."""
        if self._chief:
            self._events.write_picture(step, name, png)

    def say(self, line: str) -> None:
        """Print one line."""
        self._progress.say(line)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._progress.__exit__()
        for follower in self._followers:
            follower.update(last=True)
        if self._chief:
            # An error that is already raised, for example of a checkpoint on a full disk, says more than this one.
            with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
                self._events.close()


def _shown(values: dict) -> list[str]:
    return figures_of({name: value for name, value in values.items() if name != "examples"})


class Events:
    """Writes scalars and images for TensorBoard without TensorBoard. Any method may raise an OSError."""

    def __init__(self, folder: Path):
        self._folder = str(folder)
        with self._as_os_error():
            self._writer = tf.summary.create_file_writer(self._folder)
        plugins = (tf.compat.v1.SummaryMetadata.PluginData(plugin_name=name) for name in ("scalars", "images"))
        self._scalar, self._image = (tf.compat.v1.SummaryMetadata(plugin_data=plugin) for plugin in plugins)

    def write(self, step: int, split: str, **values: float) -> None:
        """Write one scalar per value, named `split/name`."""
        with self._written():
            for name, value in values.items():
                tf.summary.write(f"{split}/{name}", tf.constant(value, tf.float32), step, metadata=self._scalar)

    def write_picture(self, step: int, name: str, png: bytes) -> None:
        """Write one image as TensorBoard's plugin expects it: width, height and PNG, as strings."""
        width, height = (str(int.from_bytes(png[at : at + 4], "big")) for at in (16, 20))  # from the header of the PNG
        with self._written():
            tf.summary.write(name, tf.constant([width.encode(), height.encode(), png]), step, metadata=self._image)

    def close(self) -> None:
        """Close the file."""
        with self._as_os_error():
            self._writer.close()

    @contextlib.contextmanager
    def _written(self):
        with self._as_os_error():
            with self._writer.as_default():
                yield
            self._writer.flush()

    @contextlib.contextmanager
    def _as_os_error(self):
        try:
            yield
        except tf.errors.OpError as error:
            reason = str(error).strip().splitlines()[0]
            raise OSError(
                f"TensorBoard's events expected to be written to {self._folder!r}, which failed ({reason})."
            ) from error
