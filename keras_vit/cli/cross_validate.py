"""The command `keras-vit cross-validate RECIPE`."""

from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.sweep import add_search_options, score, search
from keras_vit.cli.table import table_lines, terminal_width


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "cross-validate",
        run,
        "Train a recipe once for each fold of its training data, and state mean and deviation.",
        "cross-validate recipes/digits.py --folds 5 --workdir runs/folds",
    )
    sub.description += (
        " Folds are stratified by class, and near-duplicates stay together. The test split stays apart. The same "
        "command again resumes."
    )
    add_search_options(sub)
    sub.add_argument("--folds", type=int, default=5, metavar="N", help="number of folds (default 5)")


def run(options) -> Result:
    """Cross-validate and return the table of the runs."""
    if options.folds < 2:
        raise ValueError(f"--folds expected an int of at least 2, received {options.folds}.")
    result = search(options, [], folds=options.folds)
    (trial,) = result["trials"]
    rows = [("seed", "fold", result["metric"])]
    rows += [(run["seed"], run["fold"], score(result, run["score"], None)) for run in trial["runs"]]
    lines = table_lines(rows, right=range(3), width=terminal_width())
    total = score(result, trial["mean"], trial["deviation"])
    lines.append(f"{result['metric']} {total}, mean and standard deviation of {len(trial['runs'])} runs")
    data = {"recipe": result["recipe"], "metric": result["metric"], **trial}
    if trial["mean"] is None:
        return Result(data, "\n".join(lines))
    place = ("--data-dir", options.data_dir) if options.data_dir else ()
    settings = ("--set", *options.set) if options.set else ()
    workdir = str(Path(options.workdir) / "all")
    return Result(data, "\n".join(lines), ("train", options.recipe, "--workdir", workdir, *place, *settings))
