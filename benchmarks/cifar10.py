"""How far CIFAR-10 from scratch comes, and how fast: recipes, several seeds each, as a table and a picture.

    python -m benchmarks.cifar10 --data-dir TFDS_FOLDER [--recipes cifar10,cifar10:local] [--seeds 0,1,2]
                                 [--set precision=float32 ...]
    python -m benchmarks.cifar10 --read               # from the runs that are finished, without training

Trains what is not finished yet, one run after the other, in runs/cifar10/RECIPE-SEED, so that it goes on after an
interruption; tests after every second epoch, for the curves. Half an hour a run on two cores. RECIPE-SEED.machine.txt
says where a run was trained; one without it has the machine that cifar10.json has it of, else that of --machine. Adds
the finished runs to cifar10.json beside this file, of which it makes cifar10.md, a table a machine, and cifar10.png, a
panel a machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.harness.arguments import seeds
from benchmarks.harness.machine import in_words
from keras_vit.analysis.plots.curves import read_metrics
from keras_vit.analysis.plots.style import BLUE, GREEN, GREY, OTHERS, VERMILION, canvas
from keras_vit.train.workdir import write_atomically

HERE = Path(__file__).parent
EVERY = 2  # epochs between two tests
UNKNOWN = "unknown machine"
STUDENT = 0.71, 33  # accuracy and minutes of a student's ViT with locality and growing images, on hardware unstated


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        machine: in words.
        recipe: name of the recipe.
        seed: of the run.
        summary: `accuracy`, `seconds`, `images_per_second` and `epochs` of its summary.json.
        minutes: from the beginning to the end of the epoch before each test.
        accuracies: of these tests, in percent.
    """

    machine: str
    recipe: str
    seed: int
    summary: dict
    minutes: tuple[float, ...]
    accuracies: tuple[float, ...]

    def minutes_to(self, accuracy: float) -> float | None:
        """Until the first test with that share right; None where there is none."""
        return next((m for m, a in zip(self.minutes, self.accuracies, strict=True) if a >= 100 * accuracy), None)


def read_run(workdir: Path, known: list[Run], otherwise: str) -> Run | None:
    """The run of a folder, None where it is not finished.

    Args:
        workdir: of the run.
        known: recorded runs; one of these figures keeps its machine where nothing else names it.
        otherwise: machine of a run that is not known.
    """
    if not (workdir / "summary.json").is_file():
        return None
    curves = read_metrics(workdir / "metrics.jsonl")
    until = dict(zip(*curves["seconds"]["train"], strict=True))
    steps, accuracies = curves["accuracy"]["test"]
    recipe = json.loads((workdir / "recipe.json").read_text())
    summary = json.loads((workdir / "summary.json").read_text())
    summary = {name: summary[name] for name in ("accuracy", "seconds", "images_per_second", "epochs")}
    minutes = tuple(round(float(until[step]) / 60, 3) for step in steps)
    accuracies = tuple(round(100 * float(accuracy), 2) for accuracy in accuracies)
    found = Run(otherwise, recipe["name"], recipe["seed"], summary, minutes, accuracies)
    note, known = note_of(workdir), [run for run in known if run.machine != UNKNOWN]
    if note.is_file():
        return replace(found, machine=", then ".join(note.read_text(encoding="utf-8").splitlines()))
    return next((run for run in known if replace(run, machine=otherwise) == found), found)


def recorded(record: Path) -> list[Run]:
    """The runs of a record, none where there is none."""
    rows = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else []
    lists = ("minutes", "accuracies")
    return [Run(**{name: tuple(value) if name in lists else value for name, value in row.items()}) for row in rows]


def with_recorded(runs: list[Run], known: list[Run]) -> list[Run]:
    """These runs, and the recorded ones that they do not replace; by machine, recipe and seed.

    A recorded run of an unknown machine goes once its figures have one.
    """
    named = [replace(run, machine=UNKNOWN) for run in runs if run.machine != UNKNOWN]
    found = {(run.machine, run.recipe, run.seed): run for run in [*known, *runs] if run not in named}
    return [found[key] for key in sorted(found)]


def called(recipe: str, settings: list[str]) -> str:
    """The name of a recipe's runs with some fields set otherwise."""
    return f"{recipe} with {', '.join(settings)}" if settings else recipe


def note_of(workdir: Path) -> Path:
    """Where the machines that trained a run stand, a line each: beside its folder, which has to be empty at first."""
    return workdir.with_name(f"{workdir.name}.machine.txt")


def note_machine(workdir: Path, machine: str) -> None:
    """Write down that a run begins, or goes on, on a machine."""
    note, machines = note_of(workdir), []
    if (workdir / "recipe.json").is_file():  # it goes on
        machines = note.read_text(encoding="utf-8").splitlines() if note.is_file() else [UNKNOWN]
    workdir.parent.mkdir(parents=True, exist_ok=True)
    machines += [machine] if machines[-1:] != [machine] else []
    write_atomically(note, "".join(f"{line}\n" for line in machines))


def train(recipe: str, seed: int, settings: list[str], workdir: Path, data_dir: str) -> None:
    """One run to its end, or on from where it was."""
    file, colon, row = recipe.partition(":")
    path = f"recipes/{file}.py{colon}{row}"
    command = [sys.executable, "-m", "keras_vit.cli", "train", path, "--workdir", str(workdir)]
    command += ["--data-dir", data_dir, "--strategy", "cores", "--set", f"seed={seed}", f"evaluate.every={EVERY}"]
    command += [*settings, f"name={called(recipe, settings)}"]
    subprocess.run(command, check=True, cwd=HERE.parent)


def page(runs: list[Run]) -> str:
    """The Markdown."""
    accuracy, minutes = STUDENT
    lines = [
        "# CIFAR-10 from scratch",
        "",
        "Test accuracy of the weights' average over 10,000 images; all of a run's time but the start of the process, "
        f"with a test after every second epoch. A student's ViT took {minutes} minutes to {accuracy:.0%}, on hardware "
        "unstated. `RECIPE of ...` or `RECIPE at ...`: of other parts, of more epochs or at another learning rate than "
        "the recipe has now; `RECIPE with ...`: so by `--set`. Made by `benchmarks/cifar10.py` from "
        "[cifar10.json](cifar10.json).",
        "",
        "![Test accuracy over minutes of training](cifar10.png)",
    ]
    for machine in dict.fromkeys(run.machine for run in runs):
        lines += ["", f"## {machine}", "", *table([run for run in runs if run.machine == machine])]
    return "\n".join(lines) + "\n"


def table(runs: list[Run]) -> list[str]:
    """A machine's lines of the Markdown."""
    accuracy = STUDENT[0]
    lines = [
        "| recipe | epochs | seeds | accuracy, %: mean ± deviation | of each | minutes, median | images/s "
        f"| minutes to {accuracy:.0%} |",
        "|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for name, some in by_recipe(runs).items():
        final = [100 * run.summary["accuracy"] for run in some]
        deviation = f" ± {statistics.stdev(final):.2f}" if len(final) > 1 else ""
        until = [run.minutes_to(accuracy) for run in some]
        reached = [m for m in until if m is not None]
        cells = [
            f"`{name}`",
            ", ".join(str(epochs) for epochs in sorted({run.summary["epochs"] for run in some})),
            str(len(some)),
            f"{statistics.mean(final):.2f}{deviation}",
            ", ".join(f"{value:.2f}" for value in final),
            f"{statistics.median(run.summary['seconds'] for run in some) / 60:.1f}",
            f"{statistics.median(run.summary['images_per_second'] for run in some):.0f}",
            f"{statistics.median(reached):.1f}" if len(reached) == len(some) else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def by_recipe(runs: list[Run]) -> dict[str, list[Run]]:
    """Recipe -> its runs, by seed."""
    names = dict.fromkeys(run.recipe for run in runs)
    return {name: sorted((run for run in runs if run.recipe == name), key=lambda run: run.seed) for name in names}


def draw(runs: list[Run], output: Path):
    """Accuracy over minutes, a panel a machine, a line a run, a colour a recipe; the `matplotlib.figure.Figure`."""
    machines = list(dict.fromkeys(run.machine for run in runs))
    colours = dict(zip(by_recipe(runs), (BLUE, VERMILION, GREEN, *OTHERS) * len(runs), strict=False))
    with canvas(output, (8, 1.2 + 3.2 * len(machines)), layout="constrained") as figure:
        figure.suptitle("CIFAR-10 from scratch: test accuracy, %")
        panels = figure.subplots(len(machines), sharex=True, sharey=True, squeeze=False)[:, 0]
        for machine, axes in zip(machines, panels, strict=True):
            for name, some in by_recipe([run for run in runs if run.machine == machine]).items():
                for run in some:
                    label = name if run is some[0] else None
                    axes.plot(run.minutes, run.accuracies, color=colours[name], lw=1.5, marker="o", ms=3, label=label)
            accuracy, minutes = STUDENT
            axes.plot(minutes, 100 * accuracy, "x", color=GREY, ms=8, mew=2, label="a student's, hardware unstated")
            axes.set_title(machine, fontsize="small")
            axes.grid(axis="y")
            axes.legend(loc="lower right", frameon=False)
        panels[-1].set(xlabel="minutes of training", xlim=(0, None))  # when all is drawn, since they share it
    return figure


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="cifar10,cifar10:local")
    parser.add_argument("--seeds", type=seeds, default="0,1,2")
    parser.add_argument("--set", action="extend", nargs="+", default=[], metavar="FIELD=VALUE", help="as in train")
    parser.add_argument("--runs", type=Path, default=HERE.parent / "runs/cifar10", help="folder of the runs")
    parser.add_argument("--data-dir")
    parser.add_argument("--read", action="store_true", help="train nothing")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the record, the page and the picture")
    parser.add_argument("--machine", default=UNKNOWN, help="of runs that nothing says it of (default %(default)s)")
    options = parser.parse_args(arguments)
    if not options.read and not options.data_dir:
        return "benchmarks/cifar10.py expected --data-dir, the folder of TFDS's datasets, or --read, received neither"
    folder = lambda recipe, seed: options.runs / f"{called(recipe, options.set)}-{seed}"  # noqa: E731
    places = {(recipe, seed): folder(recipe, seed) for seed in options.seeds for recipe in options.recipes.split(",")}
    for (recipe, seed), workdir in () if options.read else places.items():
        if not (workdir / "summary.json").is_file():
            note_machine(workdir, in_words().partition(";")[0])
            train(recipe, seed, options.set, workdir, options.data_dir)
    known = recorded(options.output / "cifar10.json")
    runs = [run for workdir in places.values() if (run := read_run(workdir, known, options.machine))]
    if not runs:
        return f"benchmarks/cifar10.py expected finished runs in {str(options.runs)!r}, found none"
    runs = with_recorded(runs, known)
    draw(runs, options.output / "cifar10.png")
    write_atomically(options.output / "cifar10.json", json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    write_atomically(options.output / "cifar10.md", page(runs))
    print(f"wrote cifar10.json, cifar10.md and cifar10.png in {options.output}")
    return None


if __name__ == "__main__":
    sys.exit(main())
