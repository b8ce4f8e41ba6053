"""The values behind the figures of README.md and docs/: from the code, recorded runs and notes."""

import ast
import functools
import json
import re
import signal

from support import ROOT

NOTES = "benchmarks/notes/"


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@functools.cache
def run(name: str) -> dict:
    return json.loads(text_of(f"benchmarks/results/{name}.json"))


def python() -> tuple:
    return tuple(re.findall(r'python_requires=">=([\d.]+)"', text_of("setup.py")))


def scaled() -> tuple:
    import numpy as np

    import keras_vit

    return tuple(f"{value:g}" for value in np.array(keras_vit.preprocess_input(np.array([0.0, 255.0]))))


def shown_machine() -> tuple:
    machine = run(SHOWN)["machine"]
    model = machine["cpu_model"]
    return machine["cpu"], model, machine["instructions"], run(SHOWN)["date"][:10]


SHOWN = re.search(r"results/(bench-[\d-]+)\.md\), \d rounds", text_of("docs/performance.md"))[1]


def headline(task: str, precision: str, batch: int):
    def values() -> tuple:
        from benchmarks.harness.results import fastest_pair, ratio

        asked = ("ViT_B16", task, precision, batch)
        (question,) = [
            one
            for one in run(SHOWN)["questions"]
            if tuple(one[key] for key in ("model", "task", "precision", "batch")) == asked
        ]
        pair = fastest_pair(question["rows"])
        speeds = [f"{row['images_per_second']['median']:#.3g}" for row in pair]
        title = "forward" if task == "forward" else "train step"
        return title, precision, batch, *speeds, f"{ratio(*pair)[0]:.2f}"

    return values


def cifar(recipe: str):
    def values() -> tuple:
        records = [
            record["summary"]
            for record in json.loads(text_of("benchmarks/cifar10.json"))
            if record["recipe"] == recipe and "model 17" in record["machine"]
        ]
        epochs = {record["epochs"] for record in records}
        accuracy = sum(record["accuracy"] for record in records) / len(records)
        seconds = sorted(record["seconds"] for record in records)[len(records) // 2]
        seeds = {1: "one seed", 3: "mean of three seeds"}[len(records)]
        return *epochs, seeds, f"{100 * accuracy:.1f}", f"{seconds / 60:.0f}"

    return values


def in_two_phases() -> tuple:
    """The accuracies of recipes/tiny_imagenet.py, with weights and from scratch, by its lab note."""
    note = " ".join(text_of("recipes/tiny_imagenet.py").split())
    found = re.search(r"([\d.]+) % in two phases .* and ([\d.]+) % from scratch", note)
    return tuple(f"{float(value):.1f}" for value in found.groups())


def golden_tolerances() -> tuple:
    from weights.test_goldens import CASES

    plain = {case.tolerance for case in CASES if "stem" not in case.variant and case.tolerance < 1e-4}
    hybrid = {case.tolerance for case in CASES if "stem" in case.variant and case.tolerance < 1e-4}
    return tuple(f"{max(group):.0e}".replace("e-0", "e-") for group in (plain, hybrid, {c.tolerance for c in CASES}))


def patches() -> tuple:
    from keras_vit.models.variants import vit

    return tuple(sorted({row.patch_size for row in vit.ROWS}))


def builders() -> tuple:
    from keras_vit.models.variants.lookup import ROWS

    return (len(ROWS),)


def dinov2() -> tuple:
    from keras_vit.models.variants import dinov2

    ((patch, size),) = {(row.patch_size, row.image_size) for row in dinov2.ROWS}
    return patch, size


def stem_cells() -> tuple:
    from keras_vit.models.variants import hybrid

    patch, cell = hybrid.R_Ti16.patch_size, hybrid.R_Ti16.stem.stride
    return patch, patch, cell, cell


def exaflops() -> tuple:
    from keras_vit.cost import count, published, training_exaflops
    from keras_vit.cost.weightless import build_weightless
    from keras_vit.models.variants import find_variant

    cost = count(build_weightless(find_variant("ViT_H14")[0], (224, 224)))
    (row,) = [row for row in published(6) if row.model == "ViT-H/14" and row.epochs == 14]
    return f"{training_exaflops(cost, 14):,.0f}", f"{row.exaflops:,}"


def tables() -> tuple:
    from keras_vit.cost import published

    return tuple(table for table in range(1, 20) if has_rows(published, table))


def has_rows(published, table: int) -> bool:
    try:
        return bool(published(table))
    except ValueError:
        return False


def shots() -> tuple:
    from keras_vit.evaluate.ridge import SHOTS

    return SHOTS


def devices() -> tuple:
    from benchmarks.scaling_predicted import COUNTS

    return (max(COUNTS),)


def stopped() -> tuple:
    from keras_vit.cli import INTERRUPTED

    return INTERRUPTED, 128 + signal.SIGTERM


def ranks(kind: str):
    """The default rank of a kind of adapters."""
    from keras_vit.models.adapt_settings import RANKS

    return lambda: (RANKS[kind],)


def rates_of_the_range_test() -> tuple:
    from keras_vit.train.range_test import HIGHEST, LOWEST, STEPS

    return f"{LOWEST:.0e}".replace("e-0", "e-"), f"{HIGHEST:g}", STEPS


def closed_pipe() -> tuple:
    from benchmarks.harness.verb import NOTHING
    from keras_vit.cli.output import CLOSED_PIPE

    return (*{CLOSED_PIPE, NOTHING},)


def some_failed() -> tuple:
    from keras_vit.cli.predict import SOME_FAILED

    return (SOME_FAILED,)


def user_of_the_image() -> tuple:
    return tuple(set(re.findall(r"(?:uid |USER |owner=)(\d+)", text_of("docker/train.Dockerfile"))))


def tensorflow() -> tuple:
    return (re.search(r"^tensorflow==(\d+\.\d+)", text_of("constraints.txt"), re.MULTILINE)[1],)


def epochs_of_s16() -> tuple:
    found = re.search(r"for epochs in \((\d+), \d+, (\d+)\)", text_of("recipes/imagenet_s16.py"))
    return found.groups()


def augreg_combinations() -> tuple:
    return (re.search(r"len\(grid\) == (\d+)", text_of("tests/recipes/test_recipes.py"))[1],)


NUMBERS = r"\d[\d.]*(?:(?:, | and )\d[\d.]*)*"


def speedups(file: str, row: str, until: str = "$"):
    """The least and the largest ratio in a row of the notes, of rates before and after an arrow."""

    def values() -> tuple:
        (line,) = [line for line in text_of(NOTES + file).splitlines() if line.startswith(f"| {row}")]
        ratios = []
        for before, after in re.findall(rf"({NUMBERS}) → ({NUMBERS})", re.split(until, line)[0]):
            pairs = zip(re.findall(r"[\d.]+", before), re.findall(r"[\d.]+", after), strict=True)
            ratios += [float(new) / float(old) for old, new in pairs]
        return f"{min(ratios):.1f}", f"{max(ratios):.1f}"

    return values


def seconds(file: str, row: str, words: str):
    """The speed-up of seconds before and after an arrow, behind some words in a row of the notes."""

    def values() -> tuple:
        (line,) = [line for line in text_of(NOTES + file).splitlines() if line.startswith(f"| {row}")]
        before, after = re.search(rf"{words} ([\d.]+) → ([\d.]+) s", line).groups()
        return (f"{float(before) / float(after):.2f}",)

    return values


def cores(name: str):
    """The speed-up by cores over one device in a run: the median, and the range over the rounds."""

    def values() -> tuple:
        (row,) = [
            row
            for question in run(name)["questions"]
            for row in question["rows"]
            if row["library"] == "keras_vit-cores" and question["task"] == "train"
        ]
        found = (row["first_over_it"], *reversed(row["first_over_it_range"]))
        return *(f"{1 / value:.2f}" for value in found), name

    return values


def over_full_training(name: str, library: str):
    """The step time of a contestant over ours, with its range, and its memory over ours, in both precisions."""

    def values() -> tuple:
        found = []
        for question in run(name)["questions"]:
            (ours,) = [row for row in question["rows"] if row["library"] == "keras_vit"]
            (row,) = [row for row in question["rows"] if row["library"] == library]
            found += [row["first_over_it"], *row["first_over_it_range"], row["peak_bytes"] / ours["peak_bytes"]]
        return tuple(f"{value:.2f}" for value in found)

    return values


def over_the_fastest_peer(name: str, model: str):
    """The ratios of a model's forward pass and train step over the fastest peer, in the overview of a run's page."""

    def values() -> tuple:
        page = text_of(f"benchmarks/results/{name}.md")
        rows = [
            re.search(rf"^\| {model}, {task}, .* \| ([\d.]+) \(", page, re.MULTILINE)
            for task in ("forward", "train step")
        ]
        return tuple(row[1] for row in rows)

    return values


def shared_tolerance() -> tuple:
    found = re.findall(
        r"max_difference\(weights, expected\) < (\S+)$", text_of("tests/train/test_cores.py"), re.MULTILINE
    )
    found += re.findall(r"difference < (1e-\d)", text_of("tests/train/test_distribution.py"))
    return tuple(set(found))


def bound(file: str, test: str, pattern: str):
    """The one text that a pattern finds in the source of a test."""

    def values() -> tuple:
        tree = ast.parse(text_of(f"tests/{file}"))
        (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == test]
        (found,) = set(re.findall(pattern, ast.unparse(function)))
        words = {"0.01": "1 %", "==": "equal"}
        return words.get(found) or f"{float(found):.0e}".replace("e-0", "e-"), test, file

    return values


def change(file: str, row: str, number: int) -> tuple:
    """The values before and after an arrow in a row of the notes, of its arrows the one with a number from 0."""
    (line,) = [line for line in text_of(NOTES + file).splitlines() if line.startswith(f"| {row}")]
    return re.findall(r"([\d.,]+) → ([\d.,]+)", line)[number]
