"""The process of one contestant: prepares it, then times as many calls as each line that comes in says.

Run as a file, it imports nothing of the package, so that a peer's memory and threads are the peer's alone.
"""

import contextlib
import importlib.util
import json
import os
import resource
import sys
import time
from pathlib import Path

WARM = 2  # calls behind the first one, before the turns begin


def work(prepare) -> None:
    """Prepare, warm up, then answer each line that comes in, a number of calls, with their seconds.

    What cannot go on is answered by one sentence.

    Args:
        prepare: returns a function to time; or that and a function that tells the bytes its device held at most; or
            these and the batches that a call computes, whose seconds are a batch's then, but for the first call's.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the answers

    def say(**answer):
        with contextlib.suppress(BrokenPipeError):  # nobody listens any more
            print(json.dumps(answer), file=answers, flush=True)

    try:
        prepared, made = _timed(prepare)
        call, peak, *batches = made if isinstance(made, tuple) else (made, process_peak)
        (batches,) = batches or (1,)
        first, _ = _timed(call)
        warm = [_timed(call)[0] for _ in range(WARM)]
        say(prepare=prepared, first=first, warm=min(warm))
        for line in sys.stdin:
            seconds = [_timed(call)[0] / batches for _ in range(int(line))]
            say(seconds=seconds, peak=peak())
    except Exception as error:  # whatever a peer raises is its row in the table
        say(failed=sentence(error))


def process_peak() -> int:
    """Bytes of memory that this process held at most."""
    status = Path("/proc/self/status")  # getrusage's figure begins with the parent's
    found = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")] if status.is_file() else []
    if found:
        return 1024 * int(found[0].split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def sentence(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def _timed(call):
    begun = time.perf_counter()
    made = call()
    return time.perf_counter() - begun, made


def _function(place: str):
    """The function of `FILE.py:NAME`; a file of one's own finds those beside it."""
    file, _, name = place.rpartition(":")
    if Path(file).parent != Path(__file__).parent:  # whose files would come before libraries of their names
        sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location("contestant", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["contestant"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return getattr(module, name)


def main() -> None:
    """Work for `worker.py FILE.py:NAME JSON`: the function gets the JSON's object and returns what `work` takes."""
    place, contestant = sys.argv[1:]
    package = str(Path(__file__).parents[2])
    if package not in sys.path:  # the package that asks, not another that is installed
        sys.path.insert(0, package)
    work(lambda: _function(place)(json.loads(contestant)))


if __name__ == "__main__":
    main()
