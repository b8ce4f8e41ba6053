"""Compare kinds of parameter-efficient fine-tuning with the training of all weights: accuracy, time and memory.

    python -m benchmarks.adaptations --weights FOLDER --data NAME=SOURCE ... [--seeds 0,1,2] [--epochs 6]
    python -m benchmarks.adaptations --read               # the table of the finished runs, without training

SOURCE is a folder of images with `train` and `test`, or `tfds:NAME:PERCENT`: the first PERCENT of the training split,
and a fifth of the test split. Each run is a process of `keras-vit train` in runs/adaptations/NAME-ROW-SEED; a finished
run is not repeated. Writes adaptations.json and adaptations.md beside this file.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.arguments import seeds
from benchmarks.harness.machine import in_words
from keras_vit.train.recipe import Adapt, Augment, Data, Evaluate, HeadFirst, Model, Optimizer, Recipe, Schedule
from keras_vit.train.recipe.file import to_json
from keras_vit.train.workdir import write_atomically

HERE = Path(__file__).parent
COMMAND = "python -m benchmarks.adaptations"


@dataclass(frozen=True)
class Row:
    """A way to fine-tune.

    Args:
        title: its words in the table.
        adapt: the kind; None trains all weights.
        learning_rate: learning rate of AdamW.
        layer_decay: factor of the rate from one block to the one before it.
        head_first: the first phase, which trains the head alone; None for one phase.
    """

    title: str
    adapt: Adapt | None
    learning_rate: float
    layer_decay: float = 1.0
    head_first: HeadFirst | None = None


ROWS = {
    "all": Row("all weights, the head first", None, 3e-4, layer_decay=0.75, head_first=HeadFirst(0.3, 3e-3)),
    "lora": Row(
        "LoRA, rank 4, all dense layers",
        Adapt("lora", rank=4, where=("query", "key", "value", "out", "mlp")),
        2e-3,
    ),
    "adapter": Row("AdaptFormer, width 64", Adapt("adapter"), 1e-3),
    "ssf": Row("SSF", Adapt("ssf"), 2e-3),
    "vpt": Row("VPT-deep, 10 tokens", Adapt("vpt"), 5e-3),
    "bitfit": Row("BitFit", Adapt("bitfit"), 2e-3),
    "probe": Row("the classifier", Adapt("probe"), 3e-3),
}


def recipe_of(name: str, row: Row, data: Data, options: argparse.Namespace, seed: int) -> Recipe:
    """Return the recipe of a run. All rows have the same data, batches, epochs and augmentation."""
    return Recipe(
        name,
        Model(options.model, options.weights, image_size=options.image_size),
        data,
        Augment(crop="inception", crop_area=0.5, flip=True),
        Optimizer("adamw", row.learning_rate, weight_decay=0.05, clip_norm=1.0, layer_decay=row.layer_decay),
        Schedule("cosine", warmup_steps=20),
        evaluate=Evaluate(every=options.epochs),
        adapt=row.adapt,
        head_first=row.head_first,
        epochs=options.epochs,
        precision=options.precision,
        seed=seed,
    )


def data_of(source: str, batch_size: int) -> tuple[Data, bool]:
    """Return the data of a SOURCE, and whether TensorFlow Datasets holds them."""
    if not source.startswith("tfds:"):
        return Data("folder", directory=str(Path(source).absolute()), batch_size=batch_size), False
    name, percent = source.removeprefix("tfds:").split(":")
    data = Data(f"tfds:{name}", batch_size=batch_size)
    return replace(data, train_split=f"train[:{percent}%]", test_split="test[:20%]"), True


def train(recipe: Recipe, workdir: Path, data_dir: str | None) -> None:
    """Train a recipe in a process of its own, so that its peak memory is its own."""
    workdir.mkdir(parents=True, exist_ok=True)
    file = workdir.with_suffix(".json")
    write_atomically(file, to_json(recipe))
    command = [sys.executable, "-m", "keras_vit.cli", "train", str(file), "--workdir", str(workdir), "--quiet"]
    subprocess.run([*command, *(["--data-dir", data_dir] if data_dir else [])], check=True, cwd=HERE.parent)


def figures(workdir: Path) -> dict:
    """Return the figures of a finished run."""
    summary = json.loads((workdir / "summary.json").read_text(encoding="utf-8"))
    kept = ("accuracy", "images_per_second", "peak_memory", "parameters", "steps", "train_examples", "test_examples")
    found = {name: summary[name] for name in kept} | {"classes": len(summary["labels"])}
    return found | {"trained": summary.get("trained_parameters", summary["parameters"])}


def page(record: dict) -> str:
    """Return the Markdown of a record."""
    lines = ["# Fine-tuning few weights", "", f"Made by `{COMMAND}` on {record['machine']}.", record["setting"]]
    lines += ["Accuracy on the test images, in percent: mean ± standard deviation over the seeds. The share of "
              "trained weights, the time of all updates and the memory of the process were read on the first data set. "
              "An update of the head alone, in the first phase, takes less time than one of all weights.",
              ""]  # fmt: skip
    names = list(record["data"])
    lines += [f"| trained | {' | '.join(names)} | share of the weights | time / all | memory, GB |",
              f"|---|{'---:|' * (len(names) + 3)}"]  # fmt: skip
    base = statistics.median(1 / run["images_per_second"] for run in record["runs"][names[0]]["all"])
    for key, row in ROWS.items():
        cells = [_accuracy(record["runs"][name][key]) for name in names]
        first = record["runs"][names[0]][key]
        share = f"{100 * first[0]['trained'] / first[0]['parameters']:.2f} %"
        time = statistics.median(1 / run["images_per_second"] for run in first) / base
        memory = statistics.median(run["peak_memory"] for run in first) / 1e9
        lines.append(f"| {row.title} | {' | '.join(cells)} | {share} | {time:.2f} | {memory:.2f} |")
    lines.append("")
    for name in names:
        run = record["runs"][name]["all"][0]
        lines.append(f"- {name}: {run['classes']} classes, {run['train_examples']:,} images to train, "
                     f"{run['test_examples']:,} to test, {run['steps']} steps.")  # fmt: skip
    return "\n".join(lines) + "\n"


def _accuracy(runs: list[dict]) -> str:
    values = [100 * run["accuracy"] for run in runs]
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{deviation}"


def main(arguments: list[str] | None = None) -> str | None:
    """Run the command; return an error as one sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="DINOv2_S14", help="variant of the weights (default %(default)s)")
    parser.add_argument("--weights", help="folder or name of pre-trained weights")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=SOURCE")
    parser.add_argument("--data-dir", help="data folder of TensorFlow Datasets")
    parser.add_argument("--seeds", type=seeds, default="0,1,2")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=56)
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--setting", default="", help="a sentence about the weights and the data, for the page")
    parser.add_argument("--runs", type=Path, default=HERE.parent / "runs/adaptations", help="folder of the runs")
    parser.add_argument("--read", action="store_true", help="write the page again from adaptations.json")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the record and the page")
    options = parser.parse_args(arguments)
    file = options.output / "adaptations.json"
    if options.read:
        write_atomically(options.output / "adaptations.md", page(json.loads(file.read_text(encoding="utf-8"))))
        return None
    if not options.weights or not options.data:
        return f"{COMMAND} expected --weights and --data, or --read, received {' '.join(arguments or sys.argv[1:])!r}"
    record = {"machine": in_words().partition(";")[0], "setting": options.setting, "data": {}, "runs": {}}
    for name, _, source in (text.partition("=") for text in options.data):
        data, in_tfds = data_of(source, options.batch_size)
        record["data"][name] = source if in_tfds else Path(source).name
        runs = record["runs"][name] = {key: [] for key in ROWS}
        for seed in options.seeds:
            for key, row in ROWS.items():
                workdir = options.runs / f"{name}-{key}-{seed}"
                if not (workdir / "summary.json").is_file():
                    recipe = recipe_of(f"{name}-{key}", row, data, options, seed)
                    train(recipe, workdir, options.data_dir if in_tfds else None)
                runs[key].append(figures(workdir))
                print(f"{name}, {row.title}, seed {seed}: {runs[key][-1]['accuracy']:.3f}", flush=True)
    write_atomically(file, json.dumps(record, indent=1) + "\n")
    write_atomically(options.output / "adaptations.md", page(record))
    return None


if __name__ == "__main__":
    sys.exit(main())
