"""Read and write the files of a run: recipe.json, data.json, metrics.jsonl, checkpoints/, model.keras, summary.json."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

from keras_vit.train.optim.schedule import fitted, is_open_ended
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.file import differences, from_json, to_json

SUMMARY = "summary.json"
PLANNED = ("recipe.py", "splits.csv")  # written by `keras-vit finetune` before the run
LENGTH, SKIPPING = ("epochs", "steps"), ("data.on_error",)  # fields that may change during a run


def find_summary(workdir: str | os.PathLike, recipe: Recipe) -> dict | None:
    """Return the summary of a finished run of this recipe in a folder; None if the run is not finished.

    A recipe may differ in the fields that may change during a run; a longer run is not finished yet.

    Raises:
        ValueError: the folder belongs to another recipe, or the changed fields do not allow the run to go on.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", os.fspath(workdir)):  # pathlib merges two slashes; C:/ is a drive
        raise ValueError(f"workdir expected a local folder or one that is mounted, received {os.fspath(workdir)!r}.")
    workdir = Path(workdir)
    if workdir.exists() and not workdir.is_dir():
        raise ValueError(f"workdir expected a folder, received the file {str(workdir)!r}.")
    written = workdir / "recipe.json"
    if written.is_file():
        text = written.read_text()
        other = from_json(text)
        if "exif" not in json.loads(text)["data"] and other.data.source not in ("digits", "arrays"):
            other = replace(other, data=replace(other.data, exif=False))  # written by a version that did not read EXIF
        fields = differences(recipe, other)
        if not set(fields) <= {*LENGTH, *SKIPPING}:
            older = "; --set data.exif=false goes on with it as it began" if fields == ["data.exif"] else ""
            raise ValueError(
                f"workdir expected a new folder or one of recipe {recipe.name!r} as it is, received "
                f"{str(workdir)!r} of recipe {other.name!r}, which differs in {', '.join(fields)}{older}."
            )
        longer = [field for field in fields if field in LENGTH]
        if longer and not (is_open_ended(recipe.schedule) and not recipe.curriculum.stages and not recipe.head_first):
            raise ValueError(_another_length(workdir, recipe, longer[0]))
        summary = workdir / SUMMARY
        return json.loads(summary.read_text()) if summary.is_file() and not longer else None
    others = (path for path in (workdir.iterdir() if workdir.is_dir() else ()) if path.name not in PLANNED)
    if any(path.suffix not in (".partial", ".lock") for path in others):
        raise ValueError(
            f"workdir expected a new or empty folder or one with a recipe.json, received {str(workdir)!r}, which "
            "holds other files."
        )
    return None


def _another_length(workdir: Path, recipe: Recipe, field: str) -> str:
    """Return the sentence about a run that was planned for another number of steps."""
    by = "stages" if recipe.curriculum.stages else "cool-down" if recipe.schedule.cooldown_steps else "learning rate"
    by = f"{recipe.schedule.decay} {by}" if by == "learning rate" else by
    by = "first phase" if recipe.head_first else by
    begin = "pass another --workdir"
    if (workdir / "model.keras").is_file():
        begin += f" and --from {workdir}, which begins with the weights and the head of this one"
    return (
        f"{field} expected what the run in {str(workdir)!r} began with, for its {by} was laid out over its steps, "
        f"received another; {begin}."
    )


def require_same_rates(workdir: str | os.PathLike, data, done: int) -> None:
    """Raise a ValueError if a changed recipe has other learning rates in the `done` steps."""
    recipe, written = data.recipe, Path(workdir) / "recipe.json"
    before = from_json(written.read_text()) if written.is_file() else recipe
    if (before.epochs, before.steps) == (recipe.epochs, recipe.steps):
        return
    if done > data.steps:
        raise ValueError(f"steps expected at least the {done:,} that the run in {str(workdir)!r} has made, received "
                         f"{data.steps:,}; pass another --workdir.")  # fmt: skip
    steps = before.steps or data.epoch_steps * before.epochs
    if fitted(before.schedule, steps) != fitted(recipe.schedule, data.steps):
        raise ValueError(_another_length(Path(workdir), recipe, "warmup_steps"))


def claim(workdir: str | os.PathLike, data) -> None:
    """Claim a folder for a run; other recipes and other data are refused from then on.

    Raises:
        ValueError: the data is not the same as at the beginning of the run.
    """
    workdir = Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    recipe_file, facts_file = workdir / "recipe.json", workdir / "data.json"
    before = from_json(recipe_file.read_text()) if recipe_file.is_file() else data.recipe
    known, facts = json.loads(facts_file.read_text()) if facts_file.is_file() else {}, data.facts
    changed = _changed(known, facts)
    if changed and _changed(known, data.facts_of_good_files):
        advice = "begin in a new folder"
        if (before.data.on_error, data.recipe.data.on_error) == ("skip", "stop"):
            advice = "the run left out broken files: --set data.on_error=skip goes on with it"
        raise ValueError(f"data expected what the run in {str(workdir)!r} began with, found another "
                         f"{', '.join(changed)}; {advice}.")  # fmt: skip
    if before != data.recipe:
        (workdir / SUMMARY).unlink(missing_ok=True)  # the summary of the shorter run
    write_atomically(recipe_file, to_json(data.recipe))  # first, because it identifies the run
    write_atomically(facts_file, json.dumps(facts, indent=2) + "\n")


def _changed(before: dict, now: dict) -> list[str]:
    """Return the facts that differ. Facts that an older version did not write cannot be compared."""
    return [
        f"{name} {before[name]!r} (now {value!r})" for name, value in now.items() if before.get(name, value) != value
    ]


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Write a text file under a temporary name, then rename it."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


class Metrics:
    """Writes `metrics.jsonl`: one object per line with step, split, name and value. Lines after `step` are removed."""

    def __init__(self, path: str | os.PathLike, step: int = 0):
        self.path = Path(path)
        lines = self.path.read_text().splitlines() if step and self.path.is_file() else []
        write_atomically(self.path, "".join(f"{line}\n" for line in lines if _written_by(line, step)))

    def write(self, step: int, split: str, **values: float) -> None:
        """Append one line per value."""
        rows = [{"step": step, "split": split, "name": name, "value": value} for name, value in values.items()]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    def has(self, step: int, split: str) -> bool:
        """Return whether the file has a value of a split at a step."""
        rows = (json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines())
        return any((row["step"], row["split"]) == (step, split) for row in rows)


def _written_by(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except (ValueError, KeyError, TypeError):
        return False


def save_model(model, path: str | os.PathLike) -> None:
    """Write a `.keras` file under a temporary name, then rename it."""
    path = Path(path)
    partial = path.with_name(f"partial-{path.name}")
    try:
        model.save(partial)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)  # a full disk needs its space back
        raise


def write_summary(path: str | os.PathLike, summary: dict) -> dict:
    """Write `summary.json`, whose presence means that the run is finished, and return the summary."""
    write_atomically(path, json.dumps(summary, indent=2) + "\n")
    return summary
