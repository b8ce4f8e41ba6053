"""Show the state of a run in a notebook: one line and one plot, both updated in place."""

import io
import sys
import time
from pathlib import Path

PLOT_SECONDS = 5.0  # seconds between two plots, at least
SCREEN_DPI = 96


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Line:
    """One line of text in the output of a cell, which `show` replaces."""

    def __init__(self):
        self._handle = None

    def show(self, text: str) -> None:
        """Replace the text by another one."""
        data = {"text/plain": text}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class LivePlot:
    """A plot of a run's metrics in the output of a cell, drawn again while the run goes on.

    Args:
        metrics: the run's `metrics.jsonl`.

    Raises:
        ImportError: Matplotlib is not installed.
        ValueError: this process is not the kernel of a notebook.
    """

    def __init__(self, metrics: Path):
        if not in_notebook():
            raise ValueError(
                "live_plot expected a notebook, received a process without one; `keras-vit analyze` draws the curves "
                "of a finished run."
            )
        import matplotlib  # noqa: F401  an error before the run, not after its first report

        self._metrics = metrics
        self._handle = None
        self._drawn = None  # time of the last plot

    def update(self, last: bool = False) -> None:
        """Draw the metrics so far. Without `last`, nothing is drawn within five seconds of the last plot."""
        from keras_vit.analysis.plots.curves import plot_training

        now = time.perf_counter()
        if not self._metrics.is_file() or (not last and self._drawn is not None and now - self._drawn < PLOT_SECONDS):
            return
        png = io.BytesIO()
        try:
            figure = plot_training(self._metrics, png)
        except ValueError:  # no metrics yet
            return
        self._drawn = now
        self._display(png.getvalue(), [round(side * SCREEN_DPI * 0.8) for side in figure.get_size_inches()])

    def finish(self) -> None:
        """Do nothing: the last plot stays."""

    def _display(self, png, size):
        from IPython.display import Image, display

        image = Image(png, format="png", width=size[0], height=size[1])
        if self._handle is None:
            self._handle = display(image, display_id=True)
        else:
            self._handle.update(image)
