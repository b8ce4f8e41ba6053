"""Train a recipe with several settings, seeds and folds, and select the best setting by the validation split."""

import gc
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from keras_vit.checks import is_count, require
from keras_vit.train.lock import locked
from keras_vit.train.log.figures import score_text
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.file import to_json
from keras_vit.train.recipe.inputs import check_selection, check_sizes
from keras_vit.train.recipe.labels import check_labels, selecting_metric
from keras_vit.train.search.axes import Axis, combinations, parse_axis, take_seeds, with_settings
from keras_vit.train.search.folds import open_folds
from keras_vit.train.search.results import read_trials, write_results
from keras_vit.train.search.runs import Trial, metric_of, require_validation, runs_of, title_of, train_run
from keras_vit.train.search.study import Study
from keras_vit.train.workdir import write_atomically

SEARCHES = ("grid", "random", "tpe")
PLAN = "plan.json"


def sweep(
    recipe: Recipe,
    over: list[str],
    workdir: str | os.PathLike,
    *,
    search: str = "grid",
    trials: int | None = None,
    seeds: tuple[int, ...] = (),
    folds: int = 0,
    data_dir: str | None = None,
    strategy: str = "auto",
) -> dict:
    """Train a recipe with several settings and return their scores. A second call resumes a stopped sweep.

    Every setting is a run with a workdir of its own, or one run for each seed and fold. The mean score on the
    validation split selects the best setting; the test split does not.

    Args:
        recipe: the recipe, with a validation split unless there are folds.
        over: the fields and their values, `FIELD=A,B,C` or, except for `grid`, `FIELD=LOW..HIGH`. A range that begins
            above 0 is searched on a logarithmic scale, unless both ends are ints. Empty for one setting.
        workdir: folder of the sweep.
        search: `grid` tries all combinations, `random` some of them, and `tpe` those that earlier ones suggest.
        trials: number of settings of `random` and `tpe`.
        seeds: seeds of the runs of each setting; the recipe's if empty. `seed=1,2,3` in `over` means the same.
        folds: number of folds of cross-validation, at least 2; 0 for none. See `open_folds`.
        data_dir: replaces the directory of the recipe's data.
        strategy: as in `keras_vit.train.engine.train`.

    Returns:
        The content of `sweep.json`.

    Raises:
        ImportError: Optuna is not installed.
        SystemExit: Ctrl-C or SIGTERM; the state has been saved.
        ValueError: an argument is out of range, or the workdir belongs to another sweep.
    """
    axes, seeds = take_seeds([parse_axis(text, recipe) for text in over], tuple(seeds))
    _require_consistent(recipe, axes, search, trials, folds)
    workdir = Path(workdir)
    with locked(workdir):
        _claim(workdir, recipe, {"over": over, "search": search, "seeds": list(seeds), "folds": folds})
        divided = open_folds(recipe, data_dir, workdir / "folds", folds) if folds else []
        study = Study(workdir, axes, search, recipe.seed) if axes else None
        finished, (_, sign) = read_trials(workdir), selecting_metric(recipe)
        remaining = study.open(trials) if study else [] if finished else [(0, {})]
        for number, settings in remaining:
            trial = _train(recipe, number, settings, workdir, seeds, divided, None if folds else data_dir, strategy)
            finished[number] = trial
            write_results(workdir, recipe, axes, finished)  # before the study is told, so that no result is lost
            if study:
                study.tell(number, None if trial.mean is None else sign * trial.mean)  # the study maximises
        return write_results(workdir, recipe, axes, finished)


def _require_consistent(recipe: Recipe, axes: list[Axis], search: str, trials: int | None, folds: int) -> None:
    """Raise a ValueError unless the arguments of a sweep, and the settings that are known, are consistent."""
    names = [axis.field for axis in axes]
    require(len(set(names)) == len(names), "over", "every field once", names)
    require(search in SEARCHES, "search", f"one of {', '.join(SEARCHES)}", search)
    _require_trials(axes, search, trials)
    require(folds == 0 or is_count(folds, 2), "folds", "an int of at least 2, or 0 for none", folds)
    if not folds:
        require_validation(recipe)
    for setting in combinations(axes) if search == "grid" else [{}]:
        _check(recipe, with_settings(recipe, setting), folds)


def _require_trials(axes: list[Axis], search: str, trials: int | None) -> None:
    ranges = [axis.field for axis in axes if not axis.values]
    if search == "grid":
        require(not ranges, "over", "lists of values with a grid; random and tpe search ranges", ", ".join(ranges))
        require(trials is None, "trials", "null with a grid, which tries every combination", trials)
        return
    require(bool(axes), "over", f"a field to search with {search}", "nothing")
    require(is_count(trials), "trials", f"a positive int with {search}", trials)


def _check(recipe: Recipe, own: Recipe, folds: int) -> None:
    """Raise a ValueError unless the recipe of a setting, `own`, is consistent and measured as `recipe` is."""
    alike = selecting_metric(own) == selecting_metric(recipe)
    if not alike or recipe.loss.is_regression and own.loss != recipe.loss:
        raise ValueError(f"over expected settings with the same validation {metric_of(recipe).replace('_', ' ')}, "
                         f"received the loss {own.loss.kind!r} beside {recipe.loss.kind!r}, which is measured in "
                         "another way; train each with its own recipe.")  # fmt: skip
    if folds:  # have a validation split
        own = replace(own, evaluate=replace(own.evaluate, split="validation"))
    check_sizes(own)
    check_selection(own)
    check_labels(own)


def _claim(workdir: Path, recipe: Recipe, arguments: dict) -> None:
    """Claim a folder for a sweep, which is refused for another one."""
    plan = {"recipe": json.loads(to_json(recipe)), **arguments}
    file = workdir / PLAN
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        differs = [name for name in plan if before.get(name) != plan[name]]
        if differs:
            raise ValueError(f"workdir expected a new folder or one of this sweep, received {str(workdir)!r} of a "
                             f"sweep with another {', '.join(differs)}.")  # fmt: skip
        return
    others = [path.name for path in workdir.iterdir() if path.suffix not in (".lock", ".partial")]
    if others:
        raise ValueError(f"workdir expected a new or empty folder or one of a sweep, received {str(workdir)!r}, which "
                         f"holds {others[0]!r}.")  # fmt: skip
    write_atomically(file, json.dumps(plan, indent=2) + "\n")


def _train(recipe, number, settings, workdir, seeds, folds, data_dir, strategy) -> Trial:
    """Train all runs of a setting and print its score."""
    own = with_settings(recipe, settings)
    _check(recipe, own, len(folds))
    title = ", ".join(f"{field}={value}" for field, value in settings.items()) or recipe.name
    runs = []
    for one, run in runs_of(own, workdir / f"trial-{number:03d}", seeds, folds):
        part = [f"seed {run.seed}"] * bool(seeds) + [f"fold {run.fold}"] * bool(folds)
        print(f"trial {number}: {', '.join([title, *part])}", file=sys.stderr)
        runs.append(train_run(one, run, data_dir, strategy))
        if runs[-1].score is None:
            print(f"trial {number}: {title} diverged", file=sys.stderr)
            break
    gc.collect()
    trial = Trial(number, settings, tuple(runs))
    if trial.mean is not None:
        print(f"trial {number}: {title}: {title_of(own)} {score_text(metric_of(own), trial.mean)}", file=sys.stderr)
    return trial
