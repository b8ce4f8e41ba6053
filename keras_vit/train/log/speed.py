"""How fast a run is, and where its time goes."""

import contextlib
import time
from pathlib import Path

import tensorflow as tf


class Speed:
    """Images a second, the first call of a stage left out, since it compiles.

    Args:
        images: that have been counted in an earlier process of the run.
        seconds: that these took.
    """

    def __init__(self, images: float = 0, seconds: float = 0.0):
        self.images, self.seconds = images, seconds
        self.restart()

    def restart(self) -> None:
        """The next call compiles, and the ones after it have another speed."""
        self._compiled, self._images_before, self._seconds_before = False, self.images, self.seconds

    def timed(self, function, *args, images: int) -> None:
        """Call a function that works on so many images, and wait for it."""
        begun = time.perf_counter()
        function(*args)
        if self._compiled:
            self.images, self.seconds = self.images + images, self.seconds + time.perf_counter() - begun
        self._compiled = True

    @property
    def of_run(self) -> float:
        """Of the whole run; 0.0 while it is unknown."""
        return self.images / self.seconds if self.images else 0.0

    @property
    def of_stage(self) -> float:
        """Of the stage; 0.0 while it is unknown."""
        images = self.images - self._images_before
        return images / (self.seconds - self._seconds_before) if images else 0.0

    def images_in(self, seconds: float) -> int:
        """How many images of this stage so many seconds are enough for."""
        return int(self.of_stage * seconds)


class Profile:
    """TensorBoard's profile of the third call of a run, which compiles nothing any more.

    Args:
        folder: where it goes; None for no profile.
    """

    def __init__(self, folder: Path | None):
        self._folder, self._calls = folder, 0

    @contextlib.contextmanager
    def around(self):
        """A call."""
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
