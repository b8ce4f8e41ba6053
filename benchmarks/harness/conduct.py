"""Asks the questions one after the other, and keeps what has been measured in the output folder all the while."""

import contextlib
import datetime
import json
import statistics
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import matmul
from benchmarks.harness.ahead import Ahead, Group
from benchmarks.harness.earlier import Earlier
from benchmarks.harness.machine import free_memory, machine
from benchmarks.harness.page import page, question_table
from benchmarks.harness.plan import Question, multipliers
from benchmarks.harness.processes import turns
from benchmarks.harness.results import Row, result_of
from benchmarks.harness.settings import Settings, hashes_of_files
from benchmarks.harness.sizes import BASE, groups, size_of
from keras_vit.predict.progress import Progress
from keras_vit.train.workdir import write_atomically

KEPT_FREE = 2e9  # bytes of memory that no group takes
MATMUL_ROUNDS = 3


class Conductor:
    """One run.

    Args:
        settings: that the questions follow from.
        questions: of `plan.questions`.
        output: folder of the results; it exists when the run begins.
        notes: sentences for the page's head.
        preset: that the settings are, None for none.
        earlier: an interrupted run of the same settings to go on with; None to begin one.
        command: that the run is made by, of which the page's head tells; an earlier run keeps its own.

    Attributes:
        result: what the JSON holds.
        files: the JSON and the Markdown.
    """

    def __init__(
        self,
        settings: tuple[Settings, ...],
        questions: list[Question],
        output: Path,
        notes: list[str],
        preset: str | None = None,
        earlier: Earlier | None = None,
        command: str | None = None,
    ):
        now = datetime.datetime.now(datetime.UTC)
        date, stem = f"{now:%Y-%m-%d %H:%M} UTC", f"bench-{now:%Y-%m-%d-%H%M%S}"
        self.result = {
            "date": date,
            "command": command,
            "complete": False,
            "machine": machine(),
            "resumed": [],
            "notes": notes,
            "preset": preset,
            "settings": [asdict(part) for part in settings],
            "peer_files": hashes_of_files(settings),
            "most_processes": 0,
            "matmul": [],
            "questions": [],
        }
        if earlier:
            stem, questions = earlier.file.stem, earlier.unanswered(questions)
            again = {"date": date, "load": self.result["machine"]["load"]}
            self.result = {**earlier.result, "resumed": [*earlier.result["resumed"], again]}
        self.files = output / f"{stem}.json", output / f"{stem}.md"
        self.questions, self.sizes = questions, [size_of(question) for question in questions]
        self._backends = tuple(dict.fromkeys(backend for part in settings for backend in part.backends))
        self._fastest = {}  # (precision, device) -> the contestant that multiplies fastest
        kinds = dict.fromkeys((question.precision, question.device) for question in questions)
        self._multipliers = {kind: multipliers(*kind, self._backends) for kind in kinds}
        self._groups = [
            groups(size.bytes, self._room(question.device))
            for question, size in zip(questions, self.sizes, strict=True)
        ]
        several = sum(MATMUL_ROUNDS * len(some) for some in self._multipliers.values())
        counts = [sum(len(group) + 1 for group in some) for some in self._groups]
        self.turns = several + sum(n * question.rounds for n, question in zip(counts, questions, strict=True))

    def run(self, progress: Progress) -> None:
        """Measure everything; what is there is written after each question, and when it is interrupted."""
        try:
            for kind, contestants in self._multipliers.items():
                self._measure_matmul(kind, contestants, progress)
            asked = [self._rows(*pair) for pair in zip(self.questions, self._groups, strict=True)]
            with Ahead(self._on_gpu(asked), self._room("gpu")) as ahead:
                for number, question in enumerate(self.questions):
                    self._ask(question, self.sizes[number], asked[number], progress, ahead)
            self.result["complete"] = True
        finally:
            if self.result["matmul"] or self.result["questions"]:
                self.write()

    def write(self) -> None:
        """The JSON, and its page."""
        write_atomically(self.files[0], json.dumps(self.result, indent=1) + "\n")
        write_atomically(self.files[1], page(self.result))

    def _room(self, device) -> float | None:
        """Bytes that contestants may take together; None where nobody says."""
        room = free_memory()
        if device == "gpu":
            gpus = self.result["machine"]["gpus"]
            room = min(gpu["memory_bytes"] for gpu in gpus) if gpus else None
        return None if room is None else max(room - KEPT_FREE - BASE, 0)  # BASE: the matmul's process

    def _rows(self, question, some) -> list[list[Row]]:
        """Of each group, with who multiplies beside it."""
        multiplier = self._fastest.get((question.precision, question.device))
        beside = [multiplier] if multiplier else []
        return [[Row(contestant, number) for contestant in group + beside] for number, group in enumerate(some)]

    def _on_gpu(self, asked) -> dict[int, Group]:
        """The groups of the questions that are asked of a GPU, by the identity of their rows."""
        found = {}
        for question, size, groups_of_rows in zip(self.questions, self.sizes, asked, strict=True):
            for rows in groups_of_rows if question.device == "gpu" else ():
                needed = sum(size.bytes.get(row.contestant, BASE) for row in rows)
                found[id(rows)] = Group(*_processes(rows), needed)
        return found

    def _measure_matmul(self, kind, contestants, progress) -> None:
        rows = [Row(contestant, 0) for contestant in contestants]
        with Ahead({kind: Group(*_processes(rows), 0)} if kind[1] == "gpu" else {}, 0) as ahead:
            self._listen(rows, MATMUL_ROUNDS, f"matmul {kind[0]}", progress, ahead.workers(kind))
        rates = {row.contestant.backend: matmul.flops(kind[1]) / row.median for row in rows if row.turns}
        now = {"precision": kind[0], "device": kind[1], "flops_per_second": rates}
        others = [found for found in self.result["matmul"] if (found["precision"], found["device"]) != kind]
        self.result["matmul"] = [*others, now]
        if rates:
            best = max(rates, key=rates.get)
            self._fastest[kind] = next(row.contestant for row in rows if row.contestant.backend == best)

    def _ask(self, question, size, groups_of_rows, progress, ahead) -> None:
        asked, complete = [], False
        try:
            for rows in groups_of_rows:
                asked += rows
                progress.describe(f"{question.title}: starting")
                started = ahead.workers(id(rows))
                self.result["most_processes"] = max(self.result["most_processes"], ahead.alive)
                self._listen(rows, question.rounds, question.title, progress, started)
            complete = True
        finally:
            operations = matmul.flops(question.device)
            found = result_of(question, size.flops, asked, operations)
            if found["rows"] or found["left_out"]:
                self.result["questions"].append({**found, "complete": complete})
                self.write()
                progress.print(question_table(found))

    def _listen(self, rows, rounds, title, progress, started=None) -> None:
        by_name = {row.contestant.name: row for row in rows}
        commands, environments = _processes(rows)
        alive, done = 0, dict.fromkeys(by_name, 0)
        with contextlib.closing(turns(commands, rounds, environments=environments, started=started)) as events:
            for event in events:
                by_name[event.name].take(event)
                said = event.kind
                if event.kind == "turn":
                    said = f"{by_name[event.name].contestant.batch / statistics.median(event.answer['seconds']):.3g}/s"
                progress.describe(f"{title}: {event.name}, {said}")
                if event.kind == "starting":
                    alive += 1
                    self.result["most_processes"] = max(self.result["most_processes"], alive)
                elif event.kind == "turn":
                    done[event.name] += 1
                    progress.add()
                elif event.kind == "left out":
                    alive -= 1
                    progress.say(f"{title}: left out {event.name}: {event.answer['reason']}")
                    progress.add(rounds - done[event.name])  # the turns that it will not take


def _processes(rows) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """The commands and the environments of contestants' processes, by their names."""
    contestants = {row.contestant.name: row.contestant for row in rows}
    commands = {name: contestant.command() for name, contestant in contestants.items()}
    return commands, {name: contestant.environment() for name, contestant in contestants.items()}
