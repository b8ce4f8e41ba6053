"""`keras-vit evaluate MODEL --suite NAME`: options, a call, a table."""

import argparse
from pathlib import Path

SUITES = ("vtab1k", "paper", "fewshot", "real")  # written again here, so that --help needs no TensorFlow
PROBES = ("logistic", "ridge", "knn")


def add_suite(sub: argparse.ArgumentParser) -> None:
    """Give the parser of `keras-vit evaluate` the arguments of suites."""
    group = sub.add_argument_group("suites of data sets")
    group.add_argument("--suite", choices=SUITES, help="VTAB's nineteen tasks, the paper's data sets, few-shot, or "
                       "ImageNet with its ReaL labels, -V2, -R and -A")  # fmt: skip
    group.add_argument("--output", metavar="DIR", help="folder of results.json and results.md; the same again goes on")
    group.add_argument("--probe", nargs="?", const="logistic", choices=PROBES, help="fit a head to frozen features in "
                       "place of fine-tuning, of vtab1k and paper (default logistic)")  # fmt: skip
    group.add_argument("--tasks", metavar="NAME,...", help="some of the suite's; a wrong one lists them")
    group.add_argument("--shots", metavar="N,...", default="1,5,10,25", help="of fewshot (default 1,5,10,25)")
    group.add_argument("--rates", metavar="RATE,...", help="learning rates to choose from, in place of the paper's")
    group.add_argument("--resize", type=int, help="of real: shorter side before the middle is cut out")
    group.add_argument("--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE",
                       help="replace fields of the fine-tuning recipe")  # fmt: skip


def run_suite_verb(options) -> None:
    """Run the suite and print its table; both are written down, too."""
    from keras_vit.train.suite_tables import suite_table
    from keras_vit.train.suites import Settings, run_suite
    from keras_vit.train.workdir import write_atomically

    if options.output is None:
        raise ValueError("--output expected the folder of the results, received nothing.")
    if options.probe and options.suite not in ("vtab1k", "paper"):
        raise ValueError(f"--probe expected --suite vtab1k or paper, received {options.suite}.")
    output = Path(options.output)
    results = run_suite(
        Settings(
            options.suite,
            options.model,
            output,
            options.data_dir,
            options.probe,
            tuple(options.tasks.split(",")) if options.tasks else (),
            _numbers("--shots", options.shots, int),
            _numbers("--rates", options.rates, float),
            tuple(options.set),
            options.resize,
        )
    )
    table = suite_table(results)
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "results.md", table)
    print(table, end="")


def _numbers(name: str, text: str | None, kind) -> tuple:
    try:
        numbers = tuple(kind(part) for part in text.split(",")) if text else ()
    except ValueError:
        numbers = (0,)
    if not all(number > 0 for number in numbers):
        raise ValueError(f"{name} expected positive numbers with commas between them, received {text!r}.")
    return numbers
