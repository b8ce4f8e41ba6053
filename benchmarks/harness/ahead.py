"""Processes that start before their turn: on a GPU, which would wait while one after the other imports and compiles."""

import contextlib
from collections.abc import Hashable
from dataclasses import dataclass

from benchmarks.harness.processes import LeftOutError, Worker


@dataclass(frozen=True)
class Group:
    """Contestants that take turns among themselves.

    Args:
        commands: contestant's name -> command of its process.
        environments: name -> environment of its process.
        bytes: of the GPU's memory that all of them may hold.
    """

    commands: dict[str, list[str]]
    environments: dict[str, dict[str, str]]
    bytes: float


class Ahead:
    """Starts the processes of as many groups at once as fit into memory. A context, with which they end.

    Args:
        groups: key -> group, in the order of their turns.
        room: bytes of the GPU's memory; None where there are no groups.

    Attributes:
        alive: processes that were started at once the last time.
    """

    def __init__(self, groups: dict[Hashable, Group], room: float | None):
        self._waiting, self._room = dict(groups), room
        self._workers, self._open = {}, contextlib.ExitStack()
        self.alive = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._open.close()

    def workers(self, key: Hashable) -> dict[str, Worker]:
        """A group's processes by their names; empty where there is no such group.

        Where they have not started yet, they do now, beside the next groups'; then all are ready before this returns.
        """
        if key in self._waiting:
            self._start()
        return self._workers.get(key, {})

    def _start(self):
        self._open.close()
        taken, started = 0, []
        for key, group in list(self._waiting.items()):
            taken += group.bytes
            if started and taken > self._room:
                break
            del self._waiting[key]
            own = self._workers[key] = {}
            for name, command in group.commands.items():
                own[name] = Worker(command, group.environments.get(name))
                self._open.callback(own[name].close)
            started += own.values()
        self.alive = len(started)
        for worker in started:
            with contextlib.suppress(LeftOutError):  # it says so again in its turn
                worker.ready()
