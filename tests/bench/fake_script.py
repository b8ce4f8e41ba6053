"""A benchmark script as those in benchmarks/ are: it works where it is called with `--worker NAME`."""

import runpy
import sys
from pathlib import Path

# By its file: the package would bring TensorFlow along.
work = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/harness/worker.py"))["work"]


def prepare():
    if sys.argv[2] == "missing":
        import no_such_library  # noqa: F401
    return lambda: None


work(prepare)
