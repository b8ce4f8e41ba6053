"""How far a prediction is: a bar on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

LINE_SECONDS = 10.0  # least time between two plain lines


class Progress:
    """A count of images on the standard error.

    Args:
        total: images in all, None where nobody knows.
        quiet: True shows nothing.
    """

    def __init__(self, total: int | None, quiet: bool = False):
        self.total, self.done, self.quiet = total, 0, quiet
        self._begun = self._said = time.perf_counter()
        on_terminal = sys.stderr.isatty() and not quiet
        self._bar = tqdm(total=total, unit=" images", dynamic_ncols=True) if on_terminal else None

    def add(self) -> bool:
        """Count one more image; always true, so that it may stand in a condition."""
        self.done += 1
        now = time.perf_counter()
        if self._bar is not None:
            self._bar.update()
        elif not self.quiet and now - self._said >= LINE_SECONDS:
            self._said, speed = now, self.done / (now - self._begun)
            line = f"{self.done:,} images" if self.total is None else f"{self.done:,} of {self.total:,} images"
            line += f", {speed:,.1f} images/s"
            if self.total is not None:
                line += f", {tqdm.format_interval((self.total - self.done) / speed)} left"
            print(line, file=sys.stderr, flush=True)
        return True

    def print(self, line: str) -> None:
        """Print one line on the standard output, above the bar."""
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
