"""An interrupted run, to go on with."""

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.machine import in_words, machine
from benchmarks.harness.plan import Question
from benchmarks.harness.settings import Settings, hashes_of_files


@dataclass(frozen=True)
class Earlier:
    """What is kept of an interrupted run.

    Args:
        file: its JSON.
        settings: that were asked for.
        result: what the JSON holds, without the question that was interrupted.
    """

    file: Path
    settings: tuple[Settings, ...]
    result: dict

    def unanswered(self, questions: list[Question]) -> list[Question]:
        """Those that have no answer yet."""
        answered = self.result["questions"]
        return [question for question in questions
                if not any(question.described().items() <= found.items() for found in answered)]  # fmt: skip


def open_earlier(file: str) -> Earlier:
    """An interrupted run's JSON.

    Raises:
        ValueError: it is none, or ran to its end, or on another machine or with other versions, or a peer's file has
            changed since, or it is of before the turns were kept apart.
    """
    path = Path(file)
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        settings = tuple(Settings(**{name: tuple(value) if isinstance(value, list) else value
                                     for name, value in part.items()}) for part in result["settings"])  # fmt: skip
        finished, there, files = result["complete"], result["machine"], result.get("peer_files", {})
        theirs = in_words({**there})
        kept = [question for question in result["questions"] if question["complete"]]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise ValueError(f"resume expected the JSON of a run of keras-vit bench, received {file!r}.") from None
    if finished:
        raise ValueError(f"resume expected an interrupted run, received {file!r}, which ran to its end.")
    here = machine()
    if any(there.get(name) != value for name, value in here.items() if name not in ("load", "memory_bytes", "system")):
        raise ValueError(f"resume expected a run of this machine ({in_words(here)}), received one of {theirs}.")
    changed = [file for file, now in hashes_of_files(settings).items() if files.get(file) != now]
    if changed:
        raise ValueError(f"resume expected the file of each peer as it was, received {changed[0]!r}, which has changed "
                         "since.")  # fmt: skip
    if any("turns" not in row for question in kept for row in question["rows"]):
        raise ValueError(f"resume expected a run whose JSON keeps the turns apart, received {file!r}, which an older "
                         "keras_vit began.")  # fmt: skip
    return Earlier(path, settings, {**result, "questions": kept})
