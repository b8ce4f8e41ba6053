"""Contestants in processes of their own, taking turns.

The processes take turns round by round, one at a time, so that a machine whose speed drifts drifts for all of them, and
in another order each round (`in_order`). A turn is one call, or several back to back where a call is short: after the
others' turns the first call finds cold caches and sleeping threads.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

TURN_SECONDS, MOST_CALLS = 0.5, 100  # of a turn whose calls are not counted out
GRACE = 5.0  # seconds that a process gets to end by itself


@dataclass(frozen=True)
class Event:
    """What happened to a contestant.

    Args:
        name: of the contestant.
        kind: `starting`; `ready` with seconds to `prepare`, of the `first` call and of a `warm` one; `turn` with the
            `seconds` of its calls and the `peak` of its memory in bytes; `left out` with a `reason`.
        answer: these figures.
    """

    name: str
    kind: str
    answer: dict


class LeftOutError(Exception):
    """A contestant cannot start or go on; its text is one sentence."""


class Worker:
    """The other end of `benchmarks.harness.worker.work`.

    Args:
        command: that starts the process.
        environment: of it; this process's own where None.
    """

    def __init__(self, command: list[str], environment: dict[str, str] | None = None):
        # A pipe that nobody reads would stop the process when it is full.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the process is
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors, "text": True}
        # A session of its own: Ctrl-C is for the process that writes the results.
        self._process = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
        self._ready = None

    def ready(self) -> dict:
        """The first answer, waited for once.

        Raises:
            LeftOutError: as `answer`.
        """
        if self._ready is None:
            try:
                self._ready = self.answer()
            except LeftOutError as error:
                self._ready = error
        if isinstance(self._ready, LeftOutError):
            raise self._ready
        return self._ready

    def answer(self) -> dict:
        """The next answer.

        Raises:
            LeftOutError: the contestant failed, or its process ended.
        """
        line = self._process.stdout.readline()
        if not line:
            raise LeftOutError(self._last_words())
        answer = json.loads(line)
        if "failed" in answer:
            raise LeftOutError(answer["failed"])
        return answer

    def turn(self, calls: int) -> dict:
        """Seconds of so many calls, and the memory's peak.

        Raises:
            LeftOutError: as `answer`.
        """
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """End the process, and what it has started; once."""
        if self._errors.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)  # it may have something to end itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if status < 0:
            out_of_memory = ", as happens where the memory is full" if status == -9 else ""
            return f"its process was ended by signal {-status}{out_of_memory}"
        return f"its process ended with status {status}" + (f": {lines[-1].strip()[:300]}" if lines else "")


def turns(
    commands: dict[str, list[str]],
    rounds: int,
    calls: int | None = None,
    environments: dict | None = None,
    started: dict[str, Worker] | None = None,
) -> Iterator[Event]:
    """Start the contestants one after the other, and have them take turns; their processes end with the generator.

    Args:
        commands: contestant's name -> command of its process.
        rounds: turns of each.
        calls: of a turn; as many as fit into `TURN_SECONDS` where None.
        environments: name -> environment of its process.
        started: name -> its process, where it has been started before.
    """
    with contextlib.ExitStack() as stack:
        workers, counts = {}, {}
        for name, command in commands.items():
            yield Event(name, "starting", {})
            worker = (started or {}).get(name) or Worker(command, (environments or {}).get(name))
            stack.callback(worker.close)
            try:
                answer = worker.ready()
            except LeftOutError as error:
                worker.close()
                yield Event(name, "left out", {"reason": str(error)})
                continue
            workers[name] = worker
            counts[name] = calls or min(max(math.ceil(TURN_SECONDS / max(answer["warm"], 1e-9)), 1), MOST_CALLS)
            yield Event(name, "ready", answer)
        for number in range(rounds):
            for name in in_order(list(workers), number):
                try:
                    found = workers[name].turn(counts[name])
                except LeftOutError as error:
                    workers.pop(name).close()
                    yield Event(name, "left out", {"reason": str(error)})
                    continue
                yield Event(name, "turn", found)


def in_order(names: list[str], number: int) -> list[str]:
    """Who comes when in a round: a Williams design, so that nobody always comes behind the same.

    In twice as many rounds as there are names each comes twice at every place, and twice right behind every other.
    """
    count = len(names)
    zigzag = [count - 1 - place // 2 if place % 2 else place // 2 for place in range(count)]
    order = [names[(place + number) % count] for place in zigzag]
    return order[::-1] if count % 2 and number % 2 else order


def compare(command: list[str], contestants: list[str], rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Return the seconds of every call of each contestant of a script that calls `worker.work` for `--worker NAME`.

    A contestant that cannot start is left out, with a message on the standard error.

    Args:
        command: starts the script, without its options.
        contestants: names, each measured in its own process.
        rounds: turns of each contestant.
        calls: timed calls of a turn.
    """
    commands = {name: [*command, "--worker", name] for name in contestants}
    seconds = {}
    with contextlib.closing(turns(commands, rounds, calls)) as events:
        for event in events:
            if event.kind == "turn":
                seconds.setdefault(event.name, []).extend(event.answer["seconds"])
            elif event.kind == "left out":
                print(f"left out {event.name}: {event.answer['reason']}", file=sys.stderr)
    return seconds
