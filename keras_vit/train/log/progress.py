"""The progress of a training run: a bar on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

LINE_SECONDS = 10.0  # seconds between two plain lines, at least


class Progress:
    """Shows the progress of a run of `steps` updates on the standard error, from update `start` on."""

    def __init__(self, steps: int, epochs: int, start: int = 0, quiet: bool = False):
        self.quiet = quiet
        self.steps, self.epochs = steps, epochs
        self._first = None  # step and time of the first call, which compiles
        self._said = 0.0
        self._bar = None
        if sys.stderr.isatty() and not quiet:
            layout = "{desc} |{bar}| {n_fmt}/{total_fmt} steps{postfix}, {remaining} left"
            self._bar = tqdm(
                total=steps, initial=start, bar_format=layout, dynamic_ncols=True, smoothing=0, desc="compiling"
            )

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
            begun, since = self._first
            left = tqdm.format_interval((now - since) / (step - begun) * (self.steps - step))
            self.say(
                f"epoch {epoch}/{self.epochs}, step {step}/{self.steps}, {speed:,.0f} images/s, loss {loss:.4f}, "
                f"rate {rate:.2g}, {left} left"
            )

    def say(self, line: str) -> None:
        """Print one line above the bar."""
        if not self.quiet:
            tqdm.write(line, file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
