"""Contestants for the tests: no library, no model. Run by `benchmarks/harness/worker.py` in a process of their own."""

import itertools
import os
import signal
import sys
import time
from pathlib import Path

CALLS = 3  # before the turns begin: the first, and two to warm up


def good(contestant):
    return lambda: time.sleep(0.002)


def several(contestant):
    """Four batches a call, by a clock that goes on by eight seconds whenever it is asked."""
    time.perf_counter = itertools.count(0.0, 8.0).__next__
    return (lambda: None), (lambda: 10**7), 4


def noisy(contestant):
    print("what libraries print when they are imported")
    os.write(1, b"and what their C code prints\n")
    return good(contestant)


def absent(contestant):
    import no_such_library  # noqa: F401


def unfit(contestant):
    raise ValueError(f"this peer has no {contestant['model']}\nand a second line")


def dead(contestant):
    os.kill(os.getpid(), signal.SIGKILL)


def broken(contestant):
    """Fails in its second turn."""
    calls = iter(range(CALLS + 1))

    def call():
        time.sleep(0.6)  # longer than a turn is meant to be, so that a turn is one call
        if next(calls, None) is None:
            raise RuntimeError("out of fake memory")

    return call


def interrupting(contestant):
    """Ends the process that measures, in its second turn."""
    calls = iter(range(CALLS + 1))

    def call():
        time.sleep(0.6)
        if next(calls, None) is None:
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(2)

    return call


def interrupting_once(contestant):
    """Good at two images a call; at more, `interrupting` the first time."""
    mark = Path(os.environ["FAKE_PEER_MARK"])
    if contestant["batch"] == 2 or mark.exists():
        return good(contestant)
    mark.touch()
    return interrupting(contestant)


def recording(contestant):
    """Writes a letter a call into a file, and which of the heavy libraries its process has imported."""
    file = Path(contestant["file"])
    heavy = {"keras_vit", "keras", "tensorflow", "numpy"} & set(sys.modules)

    def call():
        with file.open("a") as out:
            out.write(contestant["letter"] + "".join(sorted(heavy)))

    return call
