"""The speed of a run, and a profile."""

import contextlib
import time
from pathlib import Path

import tensorflow as tf


class Speed:
    """Measures images per second, without the first call of a stage, which compiles.

    `images` and `seconds` are the counts of earlier processes of the run.
    """

    def __init__(self, images: float = 0, seconds: float = 0.0):
        self.images, self.seconds = images, seconds
        self.restart()

    def restart(self) -> None:
        """Start a new stage: the next call compiles, and later calls have another speed."""
        self._compiled, self._images_before, self._seconds_before = False, self.images, self.seconds

    def timed(self, function, *args, images: int) -> None:
        """Call a function that processes `images` images, and measure the time."""
        begun = time.perf_counter()
        function(*args)
        if self._compiled:
            self.images, self.seconds = self.images + images, self.seconds + time.perf_counter() - begun
        self._compiled = True

    @property
    def of_run(self) -> float:
        """Images per second of the whole run; 0.0 while unknown."""
        return self.images / self.seconds if self.images else 0.0

    @property
    def of_stage(self) -> float:
        """Images per second of the stage; 0.0 while unknown."""
        images = self.images - self._images_before
        return images / (self.seconds - self._seconds_before) if images else 0.0

    def images_in(self, seconds: float) -> int:
        """Return how many images of this stage fit into `seconds` seconds."""
        return int(self.of_stage * seconds)


class Profile:
    """Writes a TensorBoard profile of the third call of a run, which no longer compiles; none if `folder` is None."""

    def __init__(self, folder: Path | None):
        self._folder, self._calls = folder, 0

    @contextlib.contextmanager
    def around(self):
        """Profile a call if it is the third one."""
        self._calls += 1
        if self._folder is None or self._calls != 3:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        tf.profiler.experimental.start(str(self._folder))
        try:
            yield
        finally:
            tf.profiler.experimental.stop()
