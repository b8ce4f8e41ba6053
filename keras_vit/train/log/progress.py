"""The progress of a training run: a bar on a terminal and in a notebook, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

from keras_vit.train.log.notebook import Line, in_notebook

LAYOUT = "{desc} |{bar}| {n_fmt}/{total_fmt} steps{postfix}, {remaining} left"
NOTEBOOK_COLUMNS = 110  # letters of the line in a notebook
LINE_SECONDS = 10.0  # seconds between two plain lines, at least


class Progress:
    """Shows the progress of a run of `steps` updates on the standard error, from update `start` on."""

    def __init__(self, steps: int, epochs: int, start: int = 0, quiet: bool = False):
        self.quiet = quiet
        self.steps, self.epochs = steps, epochs
        self._first = None  # step and time of the first call, which compiles
        self._said = 0.0
        self._bar = None
        if quiet:
            return
        shared = {"total": steps, "initial": start, "bar_format": LAYOUT, "smoothing": 0, "desc": "compiling"}
        if in_notebook():
            self._bar = _NotebookBar(**shared)
        elif sys.stderr.isatty():
            self._bar = tqdm(dynamic_ncols=True, **shared)

    def show(self, step: int, epoch: int, loss: float, speed: float, rate: float) -> None:
        """Show the state after a step: epoch from 1, mean loss since the last report, images per second, and rate."""
        now = time.perf_counter()
        compiled = self._first is None
        if compiled:
            self._first = step, now
        if self._bar is not None:
            if compiled:  # later steps tell the remaining time
                self._bar.initial, self._bar.start_t = step, time.time()
            self._bar.set_description_str(f"epoch {epoch}/{self.epochs}", refresh=False)
            if speed:
                self._bar.set_postfix_str(f"{speed:,.0f} images/s, loss {loss:.4f}, rate {rate:.2g}", refresh=False)
            self._bar.update(step - self._bar.n)
        elif not compiled and not self.quiet and (now - self._said >= LINE_SECONDS or step == self.steps):
            self._said = now
            self.say(
                f"epoch {epoch}/{self.epochs}, step {step}/{self.steps}, {speed:,.0f} images/s, loss {loss:.4f}, "
                f"rate {rate:.2g}, {self.left(step)} left"
            )

    def left(self, step: int) -> str:
        """Return the time that the remaining steps take at the mean speed so far; `??:??` after the first call."""
        begun, since = self._first or (step, 0.0)
        if step == begun:
            return "??:??" if step < self.steps else "00:00"
        return tqdm.format_interval((time.perf_counter() - since) / (step - begun) * (self.steps - step))

    def say(self, line: str) -> None:
        """Print one line above the bar."""
        if isinstance(self._bar, _NotebookBar):
            print(line, file=sys.stderr)  # tqdm would draw its own bar again
        elif not self.quiet:
            tqdm.write(line, file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()


class _NotebookBar(tqdm):
    """A bar in one output of a cell, without ipywidgets, so that a saved notebook shows its last state."""

    def __init__(self, **options):
        self._line = Line()
        super().__init__(ncols=NOTEBOOK_COLUMNS, **options)

    def display(self, msg=None, pos=None, **_):
        """Replace the shown bar; tqdm calls this method."""
        text = str(self) if msg is None else msg
        if text:
            self._line.show(text)
