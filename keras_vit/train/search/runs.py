"""The runs of one setting: one for each seed and each fold, with a workdir of its own."""

import gc
import json
import math
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from keras_vit.checks import require
from keras_vit.train.engine import train
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.labels import selecting_metric


@dataclass(frozen=True)
class Run:
    """A run of a setting, and its score on the validation split.

    Args:
        workdir: its folder.
        seed: its seed.
        fold: number of the fold that validates, from 1; None without folds.
        score: the score; None if the training diverged.
        steps: number of updates; None if the training diverged.
    """

    workdir: str
    seed: int
    fold: int | None = None
    score: float | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Trial:
    """A setting and its runs.

    Args:
        number: its number.
        settings: field -> value as text.
        runs: the runs.
    """

    number: int
    settings: dict[str, str]
    runs: tuple[Run, ...]

    @property
    def scores(self) -> list[float]:
        """The scores of all runs; empty if one diverged."""
        scores = [run.score for run in self.runs]
        return [] if None in scores else scores

    @property
    def mean(self) -> float | None:
        """The mean score; None if a run diverged."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a run's score (with n - 1); None for fewer than two runs."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    def to_json(self) -> dict:
        """Return the trial as JSON values."""
        return {"number": self.number, "settings": self.settings, "mean": self.mean, "deviation": self.deviation,
                "runs": [asdict(run) for run in self.runs]}  # fmt: skip


def metric_of(recipe: Recipe) -> str:
    """Return the name of the metric that scores a run: the one that selects its best weights."""
    return selecting_metric(recipe)[0]


def title_of(recipe: Recipe) -> str:
    """Return the name of that metric for people, such as `validation accuracy`."""
    return f"validation {metric_of(recipe).replace('_', ' ')}"


def require_validation(recipe: Recipe) -> None:
    """Raise a ValueError unless a recipe has a validation split that can score a run."""
    require(recipe.masked is None, "masked", "null where settings are compared, which needs an accuracy", recipe.masked)
    if recipe.evaluate.split in (None, recipe.data.test_split):
        raise ValueError(
            "split expected a validation split apart from the test split, which must not choose a setting, received "
            f"{recipe.evaluate.split!r}; --set data.train_split='train[:90%]' evaluate.split='train[90%:]' takes a "
            "tenth of the training split, and --folds divides it."
        )


def runs_of(recipe: Recipe, folder: Path, seeds: tuple[int, ...], folds: list[Recipe]) -> list[tuple[Recipe, Run]]:
    """Return the recipe and the folder of each run of a setting.

    Args:
        recipe: the recipe with the setting.
        folder: folder of the setting; of the run itself if it is the only one.
        seeds: seeds of the runs; the recipe's if empty.
        folds: recipes whose `data` and `evaluate` are those of the folds; empty without folds.
    """
    found = []
    for seed in seeds or (recipe.seed,):
        for number, fold in enumerate(folds or [None], 1):
            names = [f"seed-{seed}"] * bool(seeds) + [f"fold-{number}"] * bool(folds)
            one = replace(recipe, seed=seed)
            if fold is not None:
                data = replace(one.data, source=fold.data.source, directory=fold.data.directory,
                               train_split=fold.data.train_split, test_split=fold.data.test_split)  # fmt: skip
                one = replace(one, data=data, evaluate=replace(one.evaluate, split=fold.evaluate.split))
            found.append((one, Run(str(folder.joinpath(*names)), seed, number if folds else None)))
    return found


def train_run(recipe: Recipe, run: Run, data_dir: str | None = None, strategy: str = "auto") -> Run:
    """Train one run, or resume it, and return it with its score. A run that diverges has none."""
    try:
        summary = train(recipe, run.workdir, data_dir, strategy)
    except FloatingPointError:
        return run
    finally:
        gc.collect()  # the models of a run refer to themselves; many runs would fill the memory
    return replace(run, score=validation_score(run.workdir, recipe), steps=summary["steps"])


def validation_score(workdir: str, recipe: Recipe) -> float | None:
    """Return the score of a finished run on its validation split: of the weights that it saved.

    It is 0 of an accuracy that is not finite, and None of a loss that is not finite.
    """
    lines = (Path(workdir) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = ("validation", metric_of(recipe))
    values = {row["step"]: row["value"] for row in map(json.loads, lines) if (row["split"], row["name"]) == wanted}
    sign = selecting_metric(recipe)[1]
    score = sign * max(sign * value for value in values.values()) if recipe.checkpoint.use_best else values[max(values)]
    return score if math.isfinite(score) else 0.0 if sign > 0 else None
