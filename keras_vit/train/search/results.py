"""The files of a sweep: `sweep.json`, `sweep.csv` and the best recipe."""

import csv
import io
import json
from pathlib import Path

from keras_vit.train.log.figures import is_share
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.file import to_json
from keras_vit.train.recipe.labels import selecting_metric
from keras_vit.train.search.axes import Axis, with_settings
from keras_vit.train.search.runs import Run, Trial, metric_of, title_of
from keras_vit.train.workdir import write_atomically

RESULTS, TABLE, BEST = "sweep.json", "sweep.csv", "best_recipe.json"


def read_trials(workdir: Path) -> dict[int, Trial]:
    """Return the finished trials of a sweep by number."""
    file = workdir / RESULTS
    rows = json.loads(file.read_text(encoding="utf-8"))["trials"] if file.is_file() else []
    trials = [Trial(row["number"], row["settings"], tuple(Run(**run) for run in row["runs"])) for row in rows]
    return {trial.number: trial for trial in trials}


def write_results(workdir: Path, recipe: Recipe, axes: list[Axis], trials: dict[int, Trial]) -> dict:
    """Write the files of the trials so far, the best one first, and return the content of `sweep.json`."""
    sign = selecting_metric(recipe)[1]
    ranked = sorted(trials.values(), key=lambda trial: (trial.mean is None, -sign * (trial.mean or 0.0), trial.number))
    best = ranked[0] if ranked and ranked[0].mean is not None else None
    result = {
        "recipe": recipe.name,
        "metric": title_of(recipe),
        "lower_is_better": sign < 0,
        "is_share": is_share(metric_of(recipe)),
        "fields": [axis.field for axis in axes],
        "trials": [trial.to_json() for trial in ranked],
        "best": None if best is None else best.number,
        "best_settings": None if best is None else best.settings,
        "best_recipe": None if best is None else str(workdir / BEST),
    }
    if best is not None:
        write_atomically(workdir / BEST, to_json(with_settings(recipe, best.settings)))
    write_atomically(workdir / TABLE, _table(axes, ranked))
    write_atomically(workdir / RESULTS, json.dumps(result, indent=2) + "\n")  # last: it means that all files are there
    return result


def _table(axes: list[Axis], trials: list[Trial]) -> str:
    """Return a CSV table with a row for each run."""
    text = io.StringIO(newline="")
    fields = [axis.field for axis in axes]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", *fields, "seed", "fold", "score", "steps", "workdir"])
    for trial in trials:
        for run in trial.runs:
            settings = [trial.settings[field] for field in fields]
            writer.writerow([trial.number, *settings, run.seed, run.fold, run.score, run.steps, run.workdir])
    return text.getvalue()
