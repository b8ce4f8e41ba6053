"""What was measured, as the JSON file holds it."""

import statistics
from dataclasses import dataclass, field

from keras_vit.bench.plan import ALL_OURS, MATMUL, Contestant, Question
from keras_vit.bench.processes import Event
from keras_vit.models.variants import find_variant


@dataclass
class Row:
    """What a contestant's process has said so far.

    Args:
        contestant: whose.
        group: number of the group of processes that were alive together.
        prepare: seconds to import, and to build the model; None until it is ready.
        first: seconds of the first call, which traces and compiles.
        seconds: of each call of its turns, by the batches that it computes.
        peak: bytes that its process, or the GPU for it, held at most.
        reason: why it is left out, or ended early.
    """

    contestant: Contestant
    group: int
    prepare: float | None = None
    first: float | None = None
    seconds: list[float] = field(default_factory=list)
    peak: int | None = None
    reason: str | None = None

    def take(self, event: Event) -> None:
        """Note what happened."""
        answer = event.answer
        if event.kind == "ready":
            self.prepare, self.first = answer["prepare"], answer["first"]
        elif event.kind == "turn":
            self.seconds, self.peak = self.seconds + answer["seconds"], answer["peak"]
        elif event.kind == "left out":
            self.reason = answer["reason"]

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return statistics.median(self.seconds)


def result_of(question: Question, flops: int, rows: list[Row], operations: int) -> dict:
    """One question's part of the JSON.

    Args:
        question: that was asked.
        flops: operations of one image.
        rows: of all groups; that of the first contestant, and the matmul's, are in each.
        operations: of one call of the matmul.
    """
    models = [row for row in rows if row.contestant.library != MATMUL]
    rates = {row.group: operations / row.median for row in rows if row.contestant.library == MATMUL and row.seconds}
    firsts = {row.group: row.median for row in models if row.contestant == question.contestants[0] and row.seconds}
    found, left_out = [], {}
    for contestant in dict.fromkeys(row.contestant for row in models):
        own = [row for row in models if row.contestant == contestant]
        reasons = [row.reason for row in own if row.reason]
        if reasons:
            left_out[contestant.name] = reasons[0]
        measured = [row for row in own if row.seconds]
        if measured:
            found.append(_row(question, flops, measured, rates, firsts))
    about = question.described()
    about["blocks"] = question.depth or getattr(find_variant(question.model)[0], "depth", None)
    rate = statistics.median(rates.values()) if rates else None
    return {**about, "title": question.title, "flops_per_image": flops, "matmul_flops_per_second": rate,
            "rows": found, "left_out": left_out}  # fmt: skip


def _row(question, flops, measured, rates, firsts) -> dict:
    contestant, group = measured[0].contestant, measured[0].group
    seconds = [second for row in measured for second in row.seconds]
    speeds = sorted(question.batch / second for second in seconds)
    median = statistics.median(seconds)
    first = firsts.get(group) or (statistics.median(firsts.values()) if firsts else None)
    shares = [flops * question.batch / row.median / rates[row.group] for row in measured if row.group in rates]
    return {
        "name": contestant.name,
        "library": contestant.library,
        "dtype": contestant.dtype,
        "backend": contestant.backend,
        "images_per_second": {"median": question.batch / median, "min": speeds[0], "max": speeds[-1]},
        "first_over_it": None if first is None else 1.0 if group in firsts and contestant == question.contestants[0]
        else measured[0].median / first,
        "together_with_first": group in firsts,
        "share_of_matmul": statistics.median(shares) if shares else None,
        "peak_bytes": max(row.peak for row in measured),
        "prepare_seconds": measured[0].prepare,
        "first_call_seconds": measured[0].first,
        "seconds": seconds,
    }  # fmt: skip


def best_of(rows: list[dict], ours: bool) -> dict | None:
    """The fastest of our rows, or of the others; None where there is none."""
    some = [row for row in rows if (row["library"] in ALL_OURS) == ours]
    return max(some, key=_standing, default=None)


def _standing(row) -> float:
    """The higher the faster; beside the first row's turns where these are known, since the machine's speed drifts."""
    return 1 / row["first_over_it"] if row["first_over_it"] else row["images_per_second"]["median"]


def ratio(ours: dict | None, peer: dict | None) -> float | None:
    """How many times as fast one row is as another, each by its own comparison with the first row."""
    if not ours or not peer or not ours["first_over_it"] or peer["first_over_it"] is None:
        return None
    return peer["first_over_it"] / ours["first_over_it"]
