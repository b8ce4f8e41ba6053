"""What was measured, as the JSON file holds it."""

import collections
import itertools
import statistics
from dataclasses import dataclass, field

from benchmarks.harness.plan import ALL_OURS, BY_NAME, MATMUL, Contestant, Question
from benchmarks.harness.processes import Event
from keras_vit.models.variants import find_variant


@dataclass
class Row:
    """What a contestant's process has said so far.

    Args:
        contestant: whose.
        group: number of the group of processes that were alive together.
        prepare: seconds to import, and to build the model; None until it is ready.
        first: seconds of the first call, which traces and compiles.
        turns: seconds of each call of each turn, by the batches that it computes.
        peak: bytes that its process, or the GPU for it, held at most.
        reason: why it is left out, or ended early.
    """

    contestant: Contestant
    group: int
    prepare: float | None = None
    first: float | None = None
    turns: list[list[float]] = field(default_factory=list)
    peak: int | None = None
    reason: str | None = None

    def take(self, event: Event) -> None:
        """Note what happened."""
        answer = event.answer
        if event.kind == "ready":
            self.prepare, self.first = answer["prepare"], answer["first"]
        elif event.kind == "turn":
            self.turns, self.peak = [*self.turns, answer["seconds"]], answer["peak"]
        elif event.kind == "left out":
            self.reason = answer["reason"]

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return statistics.median(itertools.chain(*self.turns))


def result_of(question: Question, flops: int, rows: list[Row], operations: int) -> dict:
    """One question's part of the JSON.

    Args:
        question: that was asked.
        flops: operations of one image.
        rows: of all groups; that of the first contestant, and the matmul's, are in each.
        operations: of one call of the matmul.
    """
    models = [row for row in rows if row.contestant.library != MATMUL]
    multiplied = [row for row in rows if row.contestant.library == MATMUL and row.turns]
    rates = {row.group: operations / row.median for row in multiplied}
    beside, work = _by_round(_turns(multiplied)), flops * question.batch / operations  # in products of the matmul
    found, left_out = {}, {}
    for contestant in dict.fromkeys(row.contestant for row in models):
        own = [row for row in models if row.contestant == contestant]
        reasons = [row.reason for row in own if row.reason]
        if reasons:
            left_out[contestant.name] = reasons[0]
        measured = [row for row in own if row.turns]
        if measured:
            shares = [work * quotient for quotient in _paired(beside, _by_round(_turns(measured)))]
            found[contestant] = _row(question, measured, statistics.median(shares) if shares else None)
    first = found.get(question.contestants[0])
    for row in found.values():
        row |= compared(row, first, rates)
    about = question.described()
    about["blocks"] = question.depth or getattr(find_variant(question.model)[0], "depth", None)
    rate = statistics.median(rates.values()) if rates else None
    turns = {row.group: row.turns for row in multiplied}
    matmul_turns = [turns.get(group, []) for group in range(1 + max((row.group for row in rows), default=-1))]
    return {**about, "title": question.title, "flops_per_image": flops, "matmul_flops_per_second": rate,
            "matmul_turns": matmul_turns, "rows": [*found.values()], "left_out": left_out}  # fmt: skip


def _row(question, measured, share) -> dict:
    contestant = measured[0].contestant
    seconds = [second for row in measured for turn in row.turns for second in turn]
    median, fastest, slowest = statistics.median(seconds), min(seconds), max(seconds)
    return {
        "name": contestant.name,
        "library": contestant.library,
        "dtype": contestant.dtype,
        "backend": contestant.backend,
        "images_per_second": {name: question.batch / second
                              for name, second in (("median", median), ("min", slowest), ("max", fastest))},
        "share_of_matmul": share,
        "peak_bytes": max(row.peak for row in measured),
        "prepare_seconds": measured[0].prepare,
        "first_call_seconds": measured[0].first,
        **_turns(measured),
    }  # fmt: skip


def _turns(measured) -> dict:
    """All turns of a contestant, and the group of each: the first contestant has turns in several."""
    return {"turns": [turn for row in measured for turn in row.turns],
            "groups": [row.group for row in measured for _ in row.turns]}  # fmt: skip


def _by_round(row) -> dict[tuple[int, int], float]:
    """Median seconds of a row's turns by (group, round); who fails takes no more turns, so that none is passed over."""
    rounds = collections.Counter()
    found = {}
    for group, turn in zip(row["groups"], row["turns"], strict=True):
        found[group, rounds[group]] = statistics.median(turn)
        rounds[group] += 1
    return found


def _paired(some, others) -> list[float]:
    """Quotients of what two have of the same rounds."""
    return [value / others[place] for place, value in some.items() if place in others]


def compared(row: dict, first: dict | None, rates: dict[int, float]) -> dict:
    """How a row stands beside the first one, as its part of the JSON says it.

    Args:
        row: with its `turns`, the `groups` of them, and `share_of_matmul`, which above 1 corrects nothing: the matmul's
            rate may have come out too low.
        first: likewise; None where it was not measured.
        rates: operations a second of the matmul in each group; a group whose rate is not known may be left out.
    """
    own, others = _by_round(row), _by_round(first) if first else {}
    quotients = _paired(own, others)
    together = bool(quotients)
    if not together:  # no round is shared: each turn by each, as on a machine that had kept its speed
        known = {group for group, _ in (*own, *others)} <= set(rates)
        known = known and all((one["share_of_matmul"] or 0) <= 1 for one in (row, first) if one)
        quotients = [seconds / other * (rates[group] / rates[beside] if known else 1)
                     for (group, _), seconds in own.items() for (beside, _), other in others.items()]  # fmt: skip
    return {
        "first_over_it": statistics.median(quotients) if quotients else None,
        "first_over_it_range": [min(quotients), max(quotients)] if quotients else None,
        "together_with_first": together,
    }


def best_of(rows: list[dict], ours: bool) -> dict | None:
    """The fastest of our rows that are made for speed alone, or of the others; None where there is none.

    By the share of the matmul rate, which the machine's drift does not change, and which hangs on no third row's turns;
    where a row's is not known, or came out too high, by the ratio to the first row.
    """
    some = _side(rows, ours)
    by_share = all(0 < (row.get("share_of_matmul") or 0) <= 1 for row in some)
    return max(some, key=lambda row: row["share_of_matmul"] if by_share else _standing(row), default=None)


def fastest_pair(rows: list[dict]) -> tuple[dict | None, dict | None]:
    """The fastest of our rows, and of the others the fastest, or one that shared rounds with ours and did better there.

    Shares of the matmul rate tell rows of different groups apart; beside each other the rounds do, with less noise: of
    ours, too, those that took the very same ones.
    """
    ours, peer = best_of(rows, True), best_of(rows, False)
    if ours is None or ratio(ours, peer) is None:
        return ours, peer
    same = [row for row in _side(rows, True) if _by_round(row).keys() == _by_round(ours).keys()]
    ours = max(same, key=lambda row: ratio(row, ours)[0])  # itself among them
    others = [row for row in _side(rows, False) if _paired(_by_round(row), _by_round(ours))]
    return ours, min([peer, *others], key=lambda row: ratio(ours, row)[0])


def _side(rows, ours) -> list[dict]:
    """Our rows that are made for speed alone, all of ours where none is, or the others."""
    some = [row for row in rows if (row["library"] in ALL_OURS) == ours]
    return [row for row in some if row["library"] not in BY_NAME] or some


def _standing(row) -> float:
    """The higher the faster; beside the first row's turns where these are known, since the machine's speed drifts."""
    return 1 / row["first_over_it"] if row["first_over_it"] else row["images_per_second"]["median"]


def ratio(ours: dict | None, peer: dict | None) -> tuple[float, tuple[float, float], bool] | None:
    """How many times as fast one row is as another, the range, and whether they, or each and the first, shared rounds.

    Args:
        ours: that is compared; None where there is none.
        peer: that it is compared with; None where there is none.
    """
    if not ours or not peer:
        return None
    quotients = _paired(_by_round(peer), _by_round(ours))
    if quotients:
        return statistics.median(quotients), (min(quotients), max(quotients)), True
    if not ours["first_over_it"] or not peer["first_over_it"]:
        return None
    (low, high), (lowest, highest) = ours["first_over_it_range"], peer["first_over_it_range"]
    together = ours["together_with_first"] and peer["together_with_first"]
    return peer["first_over_it"] / ours["first_over_it"], (lowest / high, highest / low), together
