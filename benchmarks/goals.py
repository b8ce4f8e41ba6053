"""Where the goals of `keras-vit bench` stand on each machine, from the runs in results/: a table and a picture.

    python benchmarks/goals.py

Writes goals.md and goals.png beside this file: by goal and machine the newest answer of a run that asked both sides.
"""

import itertools
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from keras_vit.analysis.style import BLUE, FAINT, GREEN, GREY, INK, OTHERS, VERMILION, canvas
from keras_vit.bench.machine import in_words
from keras_vit.bench.plan import ALL_OURS, OURS
from keras_vit.bench.results import best_of, ratio
from keras_vit.train.workdir import write_atomically

HERE = Path(__file__).parent
PIXELS = 224
MARKS = tuple(zip((VERMILION, BLUE, GREEN, *OTHERS), "osD^vPX", strict=True))
TICKS = (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4)
BY = {
    "": ALL_OURS,
    " by `predict`": ("keras_vit-predict",),
    " by the SavedModel": ("keras_vit-saved_model", "keras_vit-saved_model-frozen"),
    " by OpenVINO": ("keras_vit-openvino",),
}  # how ours compute -> the libraries of `keras-vit bench` of which the fastest counts
INTRODUCTION = """
    Ours over the peer, as a speed, on each machine that `keras-vit bench` ran on; of memory timm's peak over ours.
    **Bold**: the goal is reached; –: not asked there. Each figure is the newest answer, whose page is behind it, so
    that one column may hold several days and states of the source; the fastest peer is that of those that the page
    asked. The SavedModel's is the faster of those with and without `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1`. No machine had
    a GPU. What stands between is in [NOTES](NOTES.md). Made by `benchmarks/goals.py`.
"""
PEERS = {"the fastest peer": None, "timm compiled": ("timm-compiled",), "timm": ("timm",)}  # None: all there are


@dataclass(frozen=True)
class Goal:
    """Ours over a peer's, as a speed, or a peer's memory over ours.

    Args:
        model: name of a row of the table, at its own image size.
        task: `forward` or `train`.
        precision: `float32` or `bfloat16`.
        batch: images of a call.
        least: what the ratio is to be.
        peer: of `PEERS`.
        by: of `BY`.
        memory: whether it is the ratio of the peaks, ours of `keras_vit` and the lesser of both of timm's.
    """

    model: str
    task: str
    precision: str
    batch: int
    least: float
    peer: str = "the fastest peer"
    by: str = ""
    memory: bool = False

    @property
    def words(self) -> str:
        """What is compared."""
        task = "forward" if self.task == "forward" else "peak memory of training" if self.memory else "training"
        return f"{self.model}, {task}{self.by}, {self.precision}, batch {self.batch}"

    def reached(self, question: dict) -> float | None:
        """The ratio that a question of a run's JSON answers; None where it asked another thing, or not both sides."""
        asked = [question[name] for name in ("model", "task", "precision", "batch", "image_size", "depth", "device")]
        if asked != [self.model, self.task, self.precision, self.batch, PIXELS, None, "cpu"]:
            return None
        rows = question["rows"]
        if self.memory:
            peaks = {row["library"]: row["peak_bytes"] for row in rows}
            timms = [peaks[name] for name in ("timm", "timm-compiled") if name in peaks]
            return min(timms) / peaks[OURS] if timms and OURS in peaks else None
        ours = [row for row in rows if row["library"] in BY[self.by]]
        peers = [row for row in rows if row["library"] not in ALL_OURS]
        peers = [row for row in peers if row["library"] in PEERS[self.peer]] if PEERS[self.peer] else peers
        if any((row["share_of_matmul"] or 0) > 1 for row in (*ours, *peers)):
            return None  # the matmul, or the row, was measured while the machine had another speed
        found = ratio(best_of(ours, True), best_of(peers, False))
        return found and found[0]


BASE, LARGER = "ViT_B16", ("ViT_L16", "R50_ViT_B16", "BiT_R50x1")
GOALS = (
    Goal(BASE, "forward", "float32", 8, 1.08),
    *(Goal(BASE, "forward", "bfloat16", batch, 1, "timm compiled", " by `predict`") for batch in (8, 32)),
    *(Goal(BASE, "forward", "bfloat16", batch, 1, "timm compiled", " by the SavedModel") for batch in (8, 32)),
    *(Goal(BASE, "forward", "bfloat16", batch, 1.5, "timm compiled", " by OpenVINO") for batch in (8, 32)),
    Goal(BASE, "train", "float32", 8, 1.1),
    *(Goal(BASE, "train", "bfloat16", batch, 1.05, "timm compiled") for batch in (8, 32)),
    Goal(BASE, "train", "bfloat16", 32, 1, "timm", memory=True),
    *(Goal(model, "forward", precision, 8, 1) for model in LARGER for precision in ("float32", "bfloat16")),
    *(Goal(model, "train", precision, 8, 1) for model in LARGER for precision in ("float32", "bfloat16")),
    Goal("ViT_Ti16", "forward", "float32", 1, 1 / 0.9, "timm"),
)


def machine_of(result: dict) -> str:
    """The hardware of a run in words, without what its machines have alike."""
    return in_words(result["machine"]).partition(" GiB")[0].rpartition(", ")[0]


def standing(runs: dict[str, dict]) -> dict[str, dict[Goal, tuple[float, str]]]:
    """Machine -> goal -> the ratio, and the name of the newest run that answers it.

    Args:
        runs: name -> a run's JSON, the oldest first.
    """
    found = {}
    for name, result in runs.items():
        for question in result["questions"]:
            for goal in GOALS:
                times = goal.reached(question)
                if times is not None:
                    found.setdefault(machine_of(result), {})[goal] = times, name
    return found


def page(found: dict) -> str:
    """The Markdown."""
    lines = [
        "# The goals, and where they stand",
        "",
        *textwrap.dedent(INTRODUCTION).strip().splitlines(),
        "",
        "![Ours over the peer, by goal and machine](goals.png)",
        "",
        f"| | goal | {' | '.join(found)} |",
        f"|---|---|{'---:|' * len(found)}",
    ]
    for goal in GOALS:
        cells = [_cell(goal, *own[goal]) if goal in own else "–" for own in found.values()]
        lines.append(f"| {' | '.join([goal.words, f'{goal.least:.2f} of {goal.peer}', *cells])} |")
    return "\n".join(lines) + "\n"


def _cell(goal, times, name) -> str:
    times = _cut(times)
    return f"[{f'**{times:.2f}**' if times >= _cut(goal.least) else f'{times:.2f}'}](results/{name}.md)"


def _cut(times: float) -> float:
    """To the digits that are shown, so that what looks reached is."""
    return round(times, 2)


def draw(found: dict, output: Path):
    """A line a goal, with a bar at it, and a point a machine; the `matplotlib.figure.Figure`."""
    with canvas(output, (9, 1.6 + 0.27 * len(GOALS)), layout="constrained") as figure:
        axes = figure.subplots()
        for line, goal in enumerate(GOALS):
            axes.plot([goal.least] * 2, [line - 0.38, line + 0.38], color=INK, lw=2, zorder=3)
            axes.axhspan(line - 0.5, line + 0.5, color=FAINT, alpha=0.5 * (line % 2), lw=0, zorder=0)
        for (machine, own), (colour, marker) in zip(found.items(), itertools.cycle(MARKS)):
            lines = [line for line, goal in enumerate(GOALS) if goal in own]
            axes.plot(
                [own[GOALS[line]][0] for line in lines], lines, marker, color=colour, ms=6, alpha=0.85, label=machine
            )
        axes.set(
            xscale="log", ylim=(len(GOALS) - 0.5, -0.5), yticks=range(len(GOALS)),
            yticklabels=[goal.words.replace("`", "") for goal in GOALS], title="Ours over the peer; a bar is the goal",
        )  # fmt: skip
        ticks = [tick for tick in TICKS if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.axvline(1, color=GREY, lw=1, ls=":", zorder=1)
        figure.legend(loc="outside lower center", frameon=False, ncols=2, fontsize="small")
    return figure


def read(folder: Path) -> dict[str, dict]:
    """Name -> JSON of the runs in a folder, the oldest first."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("bench-*.json"))}


def main():
    found = standing(read(HERE / "results"))
    if not found:
        return f"benchmarks/goals.py expected runs of `keras-vit bench` in {str(HERE / 'results')!r}, found none"
    draw(found, HERE / "goals.png")
    write_atomically(HERE / "goals.md", page(found))
    print("wrote benchmarks/goals.md and goals.png")
    return None


if __name__ == "__main__":
    sys.exit(main())
