"""Show progress: a bar on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

LINE_SECONDS = 10.0  # minimum time between two plain lines
ESTIMATE_FROM = 10  # things that are done before the remaining time is estimated: the first ones wait for TensorFlow


class Progress:
    """Show a count on the standard error.

    Args:
        total: final count; None if unknown.
        quiet: True shows nothing.
        unit: plural name of the counted things.
    """

    def __init__(self, total: int | None, quiet: bool = False, unit: str = "images"):
        self.total, self.done, self.quiet, self.unit = total, 0, quiet, unit
        self._activity = ""
        self._started = self._last_line = time.perf_counter()
        on_terminal = sys.stderr.isatty() and not quiet
        self._bar = tqdm(total=total, unit=f" {unit}", dynamic_ncols=True) if on_terminal else None

    def add(self, count: int = 1) -> bool:
        """Increase the count. Return True, so that the call can be a condition."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        else:
            self._print_line()
        return True

    def describe(self, activity: str) -> None:
        """Show a description of the computation."""
        self._activity = f": {activity}"
        if self._bar is not None:
            self._bar.set_description_str(activity)
        else:
            self._print_line()

    def print(self, line: str) -> None:
        """Print one line on the standard output, above the bar."""
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()

    def say(self, line: str) -> None:
        """Print one line on the standard error, above the bar."""
        if not self.quiet:
            tqdm.write(line, file=sys.stderr)

    def _print_line(self):
        """Print a plain line, unless the last one is recent."""
        now = time.perf_counter()
        if self.quiet or now - self._last_line < LINE_SECONDS:
            return
        self._last_line, speed = now, self.done / (now - self._started)
        of_total = "" if self.total is None else f" of {self.total:,}"
        line = f"{self.done:,}{of_total} {self.unit}, {speed:,.1f} {self.unit}/s"
        if self.total is not None and self.done >= ESTIMATE_FROM:
            line += f", {tqdm.format_interval((self.total - self.done) / speed)} left"
        print(line + self._activity, file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
