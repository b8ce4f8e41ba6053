"""The tables of docs/performance.md that compare ways to run a model. Each cell links its run in results/."""

from benchmarks.goals import LETTERS, standing
from benchmarks.harness.machine import processor_in_words
from benchmarks.harness.plan import OURS

RESULTS = "../benchmarks/results"
COLUMNS = (("B", "float32"), ("A", "float32"), ("A", "bfloat16"), ("E", "bfloat16"), ("F", "bfloat16"))
INSTRUCTIONS = {"A": "AVX-512 bf16", "B": "AVX2", "D": "AVX-512 bf16", "E": "AMX", "F": "AMX"}
WAYS = {  # library of `keras-vit bench` -> how to run, and what to know before
    "keras_vit-compiled": ("`compiled(model)`", "compiles again for each image shape"),
    "keras_vit-cores": ("`compiled(model, parts=2)`", "for batches"),
    "keras_vit-xla": ("`compiled(model, whole=True)`", "for one image of a narrow model, see below"),
    "keras_vit-frozen": (
        "`compiled(model, frozen=True)`",
        "a snapshot of the weights; up to two more copies of them in memory",
    ),
    "keras_vit-saved_model": ("SavedModel", ""),
    "keras_vit-saved_model-frozen": (
        "SavedModel, `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1`",
        "the process must not train; `keras-vit serve` sets it for bfloat16 models",
    ),
    "keras_vit-openvino": ("`openvino` export", "a batch runs as two halves in parallel"),
    "keras_vit-openvino-int8": ("`openvino-int8` export", "needs AVX-512 VNNI or AMX"),
}
OTHER_MODELS = (  # model, precision, batch, ways
    ("ViT_Ti16", "float32", 1, ("keras_vit-xla", "keras_vit-openvino")),
    ("ViT_L16", "bfloat16", 8, ("keras_vit-frozen", "keras_vit-openvino")),
    ("BiT_R50x1", "float32", 8, ("keras_vit-cores", "keras_vit-openvino")),
    ("BiT_R50x1", "bfloat16", 8, ("keras_vit-frozen", "keras_vit-openvino")),
)


def ways_table(runs: dict[str, dict]) -> str:
    """Return the table of ViT-B/16 at batch 8, one column per machine and precision.

    Args:
        runs: name -> a run's JSON, the oldest first.
    """
    titles = [f"{letter}: {INSTRUCTIONS[letter]}, {precision}" for letter, precision in COLUMNS]
    lines = [f"| how to run | {' | '.join(titles)} | caveat |", f"|---|{'---:|' * len(titles)}---|"]
    for library, (words, caveat) in WAYS.items():
        cells = [_cell(runs, letter, ("ViT_B16", precision, 8), library) for letter, precision in COLUMNS]
        lines.append(f"| {words} | {' | '.join(cells)} | {caveat} |".replace("|  |", "| |"))
    return "\n".join(lines)


def models_table(runs: dict[str, dict]) -> str:
    """Return the table of other models, one column per machine."""
    titles = [f"{letter}: {instructions}" for letter, instructions in INSTRUCTIONS.items()]
    lines = [f"| model | how to run | {' | '.join(titles)} |", f"|---|---|{'---:|' * len(titles)}"]
    for model, precision, batch, ways in OTHER_MODELS:
        for library in ways:
            cells = [_cell(runs, letter, (model, precision, batch), library) for letter in INSTRUCTIONS]
            lines.append(f"| {model}, batch {batch}, {precision} | {WAYS[library][0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gpu_table(runs: dict[str, dict]) -> str:
    """Return the table of the goals on a GPU: ours over the fastest peer, by model, task and image size."""
    ((machine, found),) = [
        (machine, own) for machine, own in standing(runs).items() if all(goal.device == "gpu" for goal in own)
    ]
    sizes = sorted({goal.image_size for goal in found})
    lines = [f"| {machine} | {' | '.join(f'{size} pixels' for size in sizes)} |", f"|---|{'---:|' * len(sizes)}"]
    for model, task in dict.fromkeys((goal.model, goal.task) for goal in found):
        answers = {goal.image_size: own for goal, own in found.items() if (goal.model, goal.task) == (model, task)}
        cells = [_link(answers[size].times, answers[size].run) for size in sizes]
        lines.append(f"| {model}, {'train step' if task == 'train' else task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(runs, letter: str, asked: tuple, library: str) -> str:
    """The newest ratio of a machine; a dash where the machine did not measure both."""
    for name, run in reversed(runs.items()):
        if LETTERS.get(processor_in_words(run["machine"])) != letter:
            continue
        for question in run["questions"]:
            if _asked(question) == asked and question["complete"] and (times := _over_plain(question["rows"], library)):
                return _link(times, name)
    return "–"


def _asked(question: dict) -> tuple | None:
    usual = (question["task"], question["device"], question["image_size"], question["depth"])
    usual = usual == ("forward", "cpu", 224, None)
    return (question["model"], question["precision"], question["batch"]) if usual else None


def _over_plain(rows: list[dict], library: str) -> float | None:
    """The median speed of a library's fastest row over that of the fastest plain call, on TensorFlow."""
    speeds = {}
    for row in rows:
        if row["backend"] == "tensorflow":
            speeds[row["library"]] = max(speeds.get(row["library"], 0), row["images_per_second"]["median"])
    return speeds[library] / speeds[OURS] if {library, OURS} <= set(speeds) else None


def _link(times: float, run: str) -> str:
    return f"[{times:.2f}]({RESULTS}/{run}.md)"
