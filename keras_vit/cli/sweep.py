"""The commands `keras-vit sweep RECIPE` and, in part, `keras-vit cross-validate RECIPE`."""

from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width
from keras_vit.train.log.figures import score_text

SEARCHES = ("grid", "random", "tpe")  # copied from train/, so that --help imports no TensorFlow
PLOT = "sweep.png"


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "sweep",
        run,
        "Train a recipe with several settings, and select the best one by the validation split.",
        "sweep recipes/digits.py --over optimizer.learning_rate=1e-4,3e-4,1e-3 --workdir runs/sweep",
    )
    sub.description += " The same command again resumes the sweep."
    add_search_options(sub)
    sub.add_argument("--over", action="append", required=True, metavar="FIELD=VALUES", help="a field of the recipe and "
                     "its values: A,B,C, or LOW..HIGH with random and tpe; may be repeated")  # fmt: skip
    sub.add_argument("--search", choices=SEARCHES, default="grid", help="all combinations, random ones, or those that "
                     "a tree-structured Parzen estimator proposes (default grid)")  # fmt: skip
    sub.add_argument("--trials", type=int, metavar="N", help="number of settings of random and tpe")
    sub.add_argument("--folds", type=int, default=0, metavar="N", help="cross-validate each setting with N folds")


def add_search_options(sub) -> None:
    """Add the options that `sweep` and `cross-validate` share."""
    sub.add_argument("recipe", metavar="RECIPE.py", help="a recipe, as for `keras-vit train`")
    sub.add_argument("--workdir", required=True, help="folder of all runs and of the results")
    sub.add_argument("--seeds", metavar="N,...", help="seeds; each setting is trained once with each")
    sub.add_argument("--data-dir", help="folder of the data; replaces the recipe's directory")
    sub.add_argument("--strategy", default="auto", help="as for `keras-vit train`")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", help="replace fields of the recipe"
    )


def run(options) -> Result:
    """Sweep, draw the plot, and return the table."""
    result = search(options, options.over, search=options.search, trials=options.trials, folds=options.folds)
    lines = table_lines(_rows(result), right=range(1, 9), width=terminal_width())
    workdir = Path(options.workdir)
    written = f"wrote sweep.json and sweep.csv to {workdir}"
    if result["fields"] and result["best"] is not None and _draw(result, workdir / PLOT):
        written = f"wrote sweep.json, sweep.csv and {PLOT} to {workdir}"
    if result["best"] is None:
        return Result(result, "\n".join([*lines, "no setting could be trained: the loss of each diverged", written]))
    settings = ", ".join(f"{field}={value}" for field, value in result["best_settings"].items())
    alike = sum(trial["mean"] == result["trials"][0]["mean"] for trial in result["trials"])
    tie = f", the first of {alike} settings with this score" if alike > 1 else ""
    lines += [f"best: {settings or 'the recipe'}{tie}, in {result['best_recipe']}", written]
    return Result(result, "\n".join(lines), following(options, result))


def search(options, over, **arguments) -> dict:
    """Run the sweep of the options and return its result."""
    from keras_vit.train.recipe.file import load_recipe, override
    from keras_vit.train.search.sweep import sweep

    recipe = override(load_recipe(options.recipe), options.set)
    return sweep(
        recipe, over, options.workdir, seeds=_seeds(options.seeds), data_dir=options.data_dir,
        strategy=options.strategy, **arguments,
    )  # fmt: skip


def following(options, result) -> tuple[str, ...]:
    """Return the next command: evaluate the model of the best setting, or train it where it has several."""
    place = ("--data-dir", options.data_dir) if options.data_dir else ()
    best = next(trial for trial in result["trials"] if trial["number"] == result["best"])
    if len(best["runs"]) == 1 and best["runs"][0]["fold"] is None:
        return ("evaluate", best["runs"][0]["workdir"], *place)
    workdir = str(Path(options.workdir) / "best")
    return ("train", result["best_recipe"], "--workdir", workdir, *place)


def score(result: dict, mean: float | None, deviation: float | None) -> str:
    """Return a score of a sweep with its deviation."""
    return score_text(result["metric"].removeprefix("validation "), mean, deviation)


def _rows(result):
    """Yield the rows of the table, the best setting first."""
    yield ("trial", *result["fields"], result["metric"], "runs")
    for trial in result["trials"]:
        settings = [trial["settings"][field] for field in result["fields"]]
        yield (trial["number"], *settings, score(result, trial["mean"], trial["deviation"]), len(trial["runs"]))


def _draw(result, file: Path) -> bool:
    """Draw the plot; return False without Matplotlib."""
    from keras_vit.analysis.plots.sweep import plot_sweep

    try:
        plot_sweep(result, file)
    except ImportError:
        return False
    return True


def _seeds(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"--seeds expected ints separated by commas, received {text!r}.") from None
