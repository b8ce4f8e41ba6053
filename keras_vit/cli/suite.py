"""The command `keras-vit evaluate MODEL --suite NAME`."""

import argparse
from pathlib import Path

from keras_vit.cli.options import short_name
from keras_vit.cli.output import Result

SUITES = ("vtab1k", "paper", "fewshot", "real")  # copied from evaluate/, so that --help imports no TensorFlow
PROBES = ("logistic", "ridge", "knn")
SHOTS = "1,5,10,25"
OPTIONS = ("output", "probe", "tasks", "shots", "rates", "resize", "set")


def add_suite(sub: argparse.ArgumentParser) -> None:
    """Add the options of suites to the parser of `keras-vit evaluate`."""
    group = sub.add_argument_group("suites of data sets")
    group.add_argument("--suite", choices=SUITES, help="VTAB's nineteen tasks, the paper's data sets, few-shot, or "
                       "ImageNet with its ReaL labels, -V2, -R and -A; the same command again resumes")  # fmt: skip
    group.add_argument("--probe", nargs="?", const="logistic", choices=PROBES, help="fit a head to frozen features "
                       "instead of fine-tuning, with vtab1k and paper (default logistic)")  # fmt: skip
    group.add_argument("--tasks", metavar="NAME,...", help="subset of the suite's tasks; a wrong name lists them")
    group.add_argument("--shots", metavar="N,...", help=f"images per class, with fewshot (default {SHOTS})")
    group.add_argument("--rates", metavar="RATE,...", help="learning rates to choose from when fine-tuning; replace "
                       "the paper's")  # fmt: skip
    group.add_argument("--resize", type=int, help="shorter side before the center crop, with real and --probe")
    group.add_argument("--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE",
                       help="replace fields of the fine-tuning recipe")  # fmt: skip


def require_applicable(options) -> None:
    """Raise a ValueError if an option does not apply to the requested evaluation."""
    given = [f"--{name}" for name in OPTIONS if getattr(options, name) not in (None, [])]
    if options.suite is None:
        if given:
            raise ValueError(f"--suite expected the name of a suite with {', '.join(given)}, received nothing.")
        return
    if options.flip or options.recipe:
        raise ValueError(f"{'--flip' if options.flip else '--recipe'} expected a recipe's test data, received --suite, "
                         "which has its own data.")  # fmt: skip
    is_transfer = options.suite in ("vtab1k", "paper")
    fine_tunes = is_transfer and not options.probe
    conditions = {
        "--probe": (is_transfer, "--suite vtab1k or paper"),
        "--shots": (options.suite == "fewshot", "--suite fewshot"),
        "--rates": (fine_tunes, "--suite vtab1k or paper without --probe"),
        "--set": (fine_tunes, "--suite vtab1k or paper without --probe"),
        "--resize": (options.suite == "real" or (is_transfer and options.probe), "--suite real, or --probe"),
    }
    for name, (applies, condition) in conditions.items():
        if name in given and not applies:
            probe = f" with --probe {options.probe}" if options.probe else ""
            raise ValueError(f"{name} expected {condition}, received --suite {options.suite}{probe}.")


def run_suite_verb(options) -> Result:
    """Run the suite, write its results and return its table."""
    from keras_vit.evaluate.suite_tables import suite_table
    from keras_vit.evaluate.suites import Settings, run_suite
    from keras_vit.train.workdir import write_atomically

    if options.output is None:
        raise ValueError("--output expected the folder of the results, received nothing.")
    output = Path(options.output)
    results = run_suite(
        Settings(
            options.suite,
            options.model,
            output,
            options.data_dir,
            options.probe,
            tuple(options.tasks.split(",")) if options.tasks else (),
            _numbers("--shots", options.shots or SHOTS, int),
            _numbers("--rates", options.rates, float),
            tuple(options.set),
            options.resize,
        )
    )
    table = suite_table(results)
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "results.md", table)
    following = ("export", options.model, "--output", f"saved_models/{short_name(options.model)}")
    return Result(results, table.rstrip("\n"), following)


def _numbers(name: str, text: str | None, kind) -> tuple:
    try:
        numbers = tuple(kind(number) for number in text.split(",")) if text else ()
    except ValueError:
        numbers = (0,)
    if not all(number > 0 for number in numbers):
        raise ValueError(f"{name} expected positive numbers separated by commas, received {text!r}.")
    return numbers
