"""Where the goals of `keras-vit bench` stand on each machine, from the runs in results/: a table and a picture.

    python -m benchmarks.goals

Writes goals.md and goals.png beside this file: by goal and machine the newest answer of a run that asked both sides.
"""

import hashlib
import itertools
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.machine import processor_in_words
from benchmarks.harness.page import times_in_words
from benchmarks.harness.plan import ALL_OURS, OURS
from benchmarks.harness.results import fastest_pair, ratio
from keras_vit.analysis.plots.style import BLUE, FAINT, GREEN, GREY, INK, OTHERS, VERMILION, canvas
from keras_vit.train.workdir import write_atomically

HERE = Path(__file__).parent
COLOURS, MARKERS = (VERMILION, BLUE, GREEN, *OTHERS), "osD^vPX<"  # one more: a pair comes again after 56 machines
TICKS = (0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 2, 3, 4)
LETTERS = {  # of notes/README.md
    "AMD EPYC, 2 cores, AVX2": "B, family not noted",
    "AMD EPYC (family 25, model 1), 2 cores, AVX2": "B",
    "AMD EPYC, 2 cores, AVX-512 bf16": "A, family not noted",
    "AMD EPYC (family 25, model 17), 2 cores, AVX-512 bf16": "A",
    "AMD EPYC (family 26, model 2), 2 cores, AVX-512 bf16": "C",
    "Intel(R) Xeon(R) Processor (family 6, model 207), 2 cores, AVX-512 bf16": "D",
    "Intel(R) Xeon(R) Processor (family 6, model 167), 2 cores, AMX": "E",
    "Intel(R) Xeon(R) Processor (family 6, model 207), 2 cores, AMX": "F",
}
BY = {
    "": ALL_OURS,
    " by `compiled(frozen=True)`": ("keras_vit-frozen",),
    " by the SavedModel": ("keras_vit-saved_model",),
    " by the SavedModel, weights frozen": ("keras_vit-saved_model-frozen",),
    " by OpenVINO": ("keras_vit-openvino",),
    " by OpenVINO in int8": ("keras_vit-openvino-int8",),
}  # how ours compute -> the libraries of `keras-vit bench`, of which the fastest counts
PEERS = {
    "the fastest peer": None,  # of all there are
    "timm compiled": ("timm-compiled",),
    "timm": ("timm",),
    "timm, eager or compiled": ("timm", "timm-compiled"),
}
INTRODUCTION = """
    Speed of `keras_vit` over the peer, on each machine that `keras-vit bench` ran on, with the range over the rounds.
    Each cell is the newest result of that machine and links its run, so a column may hold several days and versions.
    For memory the ratio is the peer's peak over ours. The goal of Ti/16, 0.9 of timm's latency, is 1.11 of its speed.
    Words in a cell name the contestants, ours and the peer. `apart`: not measured in the same rounds.

    **Bold**: the goal is reached. Where the peer is the fastest one, bold needs two peers or more; one of them may have
    run out of memory. –: not measured, or the machine changed its speed meanwhile. Frozen weights mean
    `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1`, which `keras-vit serve` sets for bfloat16 models.

    [script_results.md](script_results.md#exports) measures whether int8 agrees with the model. [notes](notes/README.md)
    explains the letters of the machines. This page is written by `benchmarks/goals.py`.
"""


@dataclass(frozen=True)
class Goal:
    """Ours over a peer's, as a speed, or a peer's memory over ours.

    Args:
        model: name of a row of the table.
        task: `forward` or `train`.
        precision: `float32` or `bfloat16`.
        batch: images of a call.
        least: what the ratio is to be.
        peer: of `PEERS`.
        by: of `BY`.
        memory: whether it is the ratio of the peaks, ours of `keras_vit` and the least of the peers'.
        image_size: side in pixels.
        device: `cpu` or `gpu`.
    """

    model: str
    task: str
    precision: str
    batch: int
    least: float
    peer: str = "the fastest peer"
    by: str = ""
    memory: bool = False
    image_size: int = 224
    device: str = "cpu"

    @property
    def against(self) -> tuple[str, ...] | None:
        """The libraries of the peer, of which the fastest counts; None for all there are."""
        return PEERS[self.peer]

    @property
    def words(self) -> str:
        """What is compared."""
        task = "forward" if self.task == "forward" else "peak memory of training" if self.memory else "training"
        more = f", {self.image_size} px, GPU" if self.device == "gpu" else ""
        return f"{self.model}, {task}{self.by}, {self.precision}, batch {self.batch}{more}"

    def answer(self, question: dict, run: str) -> "Answer | None":
        """What a question of a run's JSON answers; None where it was interrupted, asked another, or one side."""
        if not question["complete"]:
            return None
        asked = [question[name] for name in ("model", "task", "precision", "batch", "image_size", "depth", "device")]
        if asked != [self.model, self.task, self.precision, self.batch, self.image_size, None, self.device]:
            return None
        # Apart and above the matmul's rate: one of both was measured while the machine had another speed.
        rows = [row for row in question["rows"] if row["together_with_first"] or (row["share_of_matmul"] or 0) <= 1]
        peers = [row for row in rows if row["library"] not in ALL_OURS]
        peers = [row for row in peers if row["library"] in self.against] if self.against else peers
        if self.memory:
            ours = [row for row in rows if row["library"] == OURS]
            pair = [min(some, key=lambda row: row["peak_bytes"], default=None) for some in (ours, peers)]
            found = None if None in pair else (pair[1]["peak_bytes"] / pair[0]["peak_bytes"], None, True)
        else:
            pair = fastest_pair([row for row in rows if row["library"] in BY[self.by]] + peers)
            found = ratio(*pair)
        asked = {row["library"] for row in peers} | _without_room(question)
        wide = self.against is not None or len(asked) > 1
        return found and Answer(*found, *map(_name, pair), wide, run)


@dataclass(frozen=True)
class Answer:
    """How ours stands beside a peer.

    Args:
        times: ours over the peer.
        limits: of the rounds; None for memory.
        together: whether they shared rounds.
        ours: who computed, in words.
        peer: likewise.
        wide: whether those were asked whom the goal means.
        run: name of the run.
    """

    times: float
    limits: tuple[float, float] | None
    together: bool
    ours: str
    peer: str
    wide: bool
    run: str

    def cell(self, goal: Goal) -> str:
        """Of the table: the ratio, its range, and who computed where the goal leaves that open."""
        bold = "**" if self.wide and self.times >= goal.least else ""
        shown, _, rest = times_in_words(self.times, self.limits or (self.times,) * 2, self.together).partition(" ")
        ours = self.ours if not goal.by and not goal.memory else None
        peer = self.peer if goal.against is None or len(goal.against) > 1 else None
        who = ", ".join(filter(None, (ours, peer)))
        return " ".join(filter(None, (f"[{bold}{shown}{bold}](results/{self.run}.md)", rest, who)))


def _without_room(question) -> set[str]:
    """Peers that were asked, and found too little memory."""
    lacked = {name.split()[0] for name, reason in question["left_out"].items() if "memory" in reason}
    return lacked.difference(ALL_OURS)


def _name(row) -> str:
    name = row["library"].removeprefix(f"{OURS}-")
    return f"{name} on JAX" if row["backend"] == "jax" else name


BASE, LARGER = "ViT_B16", ("ViT_L16", "R50_ViT_B16", "BiT_R50x1")
GOALS = (
    Goal(BASE, "forward", "float32", 8, 1.08),
    *(Goal(BASE, "forward", "bfloat16", batch, 1, "timm compiled", " by `compiled(frozen=True)`") for batch in (8, 32)),
    *(
        Goal(BASE, "forward", "bfloat16", batch, 1, "timm compiled", by)
        for by in (" by the SavedModel", " by the SavedModel, weights frozen")
        for batch in (8, 32)
    ),
    *(
        Goal(BASE, "forward", "bfloat16", batch, 1.5, "timm compiled", by)
        for by in (" by OpenVINO", " by OpenVINO in int8")
        for batch in (8, 32)
    ),
    Goal(BASE, "train", "float32", 8, 1.1),
    *(Goal(BASE, "train", "bfloat16", batch, 1.05, "timm compiled") for batch in (8, 32)),
    Goal(BASE, "train", "bfloat16", 32, 1, "timm, eager or compiled", memory=True),
    *(Goal(model, "forward", precision, 8, 1) for model in LARGER for precision in ("float32", "bfloat16")),
    *(Goal(model, "train", precision, 8, 1) for model in LARGER for precision in ("float32", "bfloat16")),
    Goal("ViT_Ti16", "forward", "float32", 1, 1 / 0.9, "timm"),
    *(
        Goal(model, task, "bfloat16", 256, 1, image_size=size, device="gpu")
        for model in (BASE, "ViT_L16")
        for task in ("forward", "train")
        for size in (224, 384)
    ),
)


def standing(runs: dict[str, dict]) -> dict[str, dict[Goal, Answer]]:
    """Machine in words -> goal -> the newest answer, of those that asked whom the goal means, if any did.

    Args:
        runs: name -> a run's JSON, the oldest first.
    """
    found = {}
    for run, result in runs.items():
        for question in result["questions"]:
            own = found.setdefault(_machine(result["machine"], question["device"]), {})
            for goal in GOALS:
                answer = goal.answer(question, run)
                if answer and (answer.wide or not (goal in own and own[goal].wide)):
                    own[goal] = answer
    return {machine: own for machine, own in found.items() if own}


def _machine(found, device) -> str:
    if device == "gpu":
        return found["gpus"][0]["name"]
    processor = processor_in_words(found)
    letter = LETTERS.get(processor)
    return f"{letter}: {processor}" if letter else processor


def page(found: dict) -> str:
    """The Markdown."""
    lines = [
        "# The goals, and where they stand",
        "",
        *textwrap.dedent(INTRODUCTION).strip().splitlines(),
        "",
        "![Ours over the peer, by goal and machine](goals.png)",
        "",
        *_table(found, "cpu"),
        *_table(found, "gpu"),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(found, device) -> list[str]:
    """The goals of a device, with the machines that answered one."""
    goals = [goal for goal in GOALS if goal.device == device]
    machines = {machine: own for machine, own in found.items() if any(goal in own for goal in goals)}
    lines = [f"| | goal | {' | '.join(machines)} |", f"|---|---|{'---:|' * len(machines)}"]
    for goal in goals:
        cells = [own[goal].cell(goal) if goal in own else "–" for own in machines.values()]
        lines.append(f"| {' | '.join([goal.words, f'{goal.least:.2f} of {goal.peer}', *cells])} |")
    return [*lines, ""] if machines else []


def draw(found: dict, output: Path):
    """A line a goal, with a bar at it, and a point a machine; the `matplotlib.figure.Figure`.

    The file says which page it is of, by `digest`.
    """
    about = {"Description": digest(page(found))}
    with canvas(output, (9, 1.6 + 0.27 * len(GOALS)), about, layout="constrained") as figure:
        axes = figure.subplots()
        for line, goal in enumerate(GOALS):
            axes.plot([goal.least] * 2, [line - 0.38, line + 0.38], color=INK, lw=2, zorder=3)
            axes.axhspan(line - 0.5, line + 0.5, color=FAINT, alpha=0.5 * (line % 2), lw=0, zorder=0)
        marks = zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS))
        for (machine, own), (colour, marker) in zip(found.items(), marks, strict=False):
            lines = [line for line, goal in enumerate(GOALS) if goal in own]
            axes.plot(
                [own[GOALS[line]].times for line in lines], lines, marker, color=colour, ms=6, alpha=0.85, label=machine
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


def digest(text: str) -> str:
    """Of a page."""
    return hashlib.sha256(text.encode()).hexdigest()


def read(folder: Path) -> dict[str, dict]:
    """Name -> JSON of the runs in a folder, the oldest first."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("bench-*.json"))}


def main(folder: Path = HERE):
    found = standing(read(folder / "results"))
    if not found:
        return f"benchmarks/goals.py expected runs of `keras-vit bench` in {str(folder / 'results')!r}, found none"
    draw(found, folder / "goals.png")
    write_atomically(folder / "goals.md", page(found))
    print("wrote benchmarks/goals.md and goals.png")
    return None


if __name__ == "__main__":
    sys.exit(main())
