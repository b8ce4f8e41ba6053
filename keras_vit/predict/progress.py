"""How far a run is: a bar on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

LINE_SECONDS = 10.0  # least time between two plain lines


class Progress:
    """A count on the standard error.

    Args:
        total: images, or what else is counted, in all; None where nobody knows.
        quiet: True shows nothing.
        unit: what is counted.
    """

    def __init__(self, total: int | None, quiet: bool = False, unit: str = "images"):
        self.total, self.done, self.quiet, self.unit = total, 0, quiet, unit
        self._about = ""
        self._begun = self._said = time.perf_counter()
        on_terminal = sys.stderr.isatty() and not quiet
        self._bar = tqdm(total=total, unit=f" {unit}", dynamic_ncols=True) if on_terminal else None

    def add(self, count: int = 1) -> bool:
        """Count more of them; always true, so that it may stand in a condition."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        else:
            self._tell()
        return True

    def describe(self, about: str) -> None:
        """Say what is under way."""
        self._about = f": {about}"
        if self._bar is not None:
            self._bar.set_description_str(about)
        else:
            self._tell()

    def print(self, line: str) -> None:
        """Print one line on the standard output, above the bar."""
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()

    def say(self, line: str) -> None:
        """Print one line on the standard error, above the bar."""
        if not self.quiet:
            tqdm.write(line, file=sys.stderr)

    def _tell(self):
        """A plain line, unless the last one was just now."""
        now = time.perf_counter()
        if self.quiet or now - self._said < LINE_SECONDS:
            return
        self._said, speed = now, self.done / (now - self._begun)
        of_all = "" if self.total is None else f" of {self.total:,}"
        line = f"{self.done:,}{of_all} {self.unit}, {speed:,.1f} {self.unit}/s"
        if self.total is not None and speed:
            line += f", {tqdm.format_interval((self.total - self.done) / speed)} left"
        print(line + self._about, file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
