"""What a run leaves in its folder: recipe.json, data.json, metrics.jsonl, checkpoints/, model.keras, summary.json."""

import json
import os
import re
from pathlib import Path

from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe_file import differences, from_json, to_json


def find_summary(workdir: str | os.PathLike, recipe: Recipe) -> dict | None:
    """The summary in a folder where this recipe has been run to its end; changes nothing.

    Raises:
        ValueError: the folder holds something else.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", os.fspath(workdir)):  # one slash: pathlib makes it of two; C:/ is Windows's
        raise ValueError(f"workdir expected a local folder or one that is mounted, received {os.fspath(workdir)!r}.")
    workdir = Path(workdir)
    if workdir.exists() and not workdir.is_dir():
        raise ValueError(f"workdir expected a folder, received the file {str(workdir)!r}.")
    written = workdir / "recipe.json"
    if written.is_file():
        other = from_json(written.read_text())
        if other != recipe:
            fields = ", ".join(differences(recipe, other))
            raise ValueError(
                f"workdir expected a new folder or one of recipe {recipe.name!r} as it is, received "
                f"{str(workdir)!r} of recipe {other.name!r}, which differs in {fields}."
            )
        summary = workdir / "summary.json"
        return json.loads(summary.read_text()) if summary.is_file() else None
    if workdir.is_dir() and any(path.suffix != ".partial" for path in workdir.iterdir()):
        raise ValueError(
            f"workdir expected a new or empty folder or one with a recipe.json, received {str(workdir)!r}, which "
            "holds other files."
        )
    return None


def claim(workdir: str | os.PathLike, recipe: Recipe, data: dict) -> None:
    """Make a folder this recipe's own: from now on it is refused to any other.

    Args:
        workdir: folder of the run.
        recipe: of the run.
        data: what tells whether a run goes on with the data that it began with.

    Raises:
        ValueError: it does not.
    """
    workdir = Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    written = workdir / "data.json"
    before = json.loads(written.read_text()) if written.is_file() else {}
    changed = [  # what an older version did not write down cannot be compared
        f"{name} {before[name]!r} (now {value!r})" for name, value in data.items() if before.get(name, value) != value
    ]
    if changed:
        raise ValueError(f"data expected what the run in {str(workdir)!r} began with, found another "
                         f"{', '.join(changed)}; begin in a new folder.")  # fmt: skip
    write_atomically(workdir / "recipe.json", to_json(recipe))  # first: it tells whose folder this is
    write_atomically(written, json.dumps(data, indent=2) + "\n")


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Write a text file beside its place, then move it there."""
    path = Path(path)
    beside = path.with_name(path.name + ".partial")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


class Metrics:
    """`metrics.jsonl`: one object a line with step, split, name and value.

    Args:
        path: of the file.
        step: where the run goes on; lines of later steps, which will be written again, are dropped.
    """

    def __init__(self, path: str | os.PathLike, step: int = 0):
        self.path = Path(path)
        lines = self.path.read_text().splitlines() if step and self.path.is_file() else []
        write_atomically(self.path, "".join(f"{line}\n" for line in lines if _written_by(line, step)))

    def write(self, step: int, split: str, **values: float) -> None:
        """Append one line a value."""
        rows = [{"step": step, "split": split, "name": name, "value": value} for name, value in values.items()]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))


def _written_by(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except (ValueError, KeyError, TypeError):
        return False


def save_model(model, path: str | os.PathLike) -> None:
    """Write a `.keras` file beside its place, then move it there."""
    path = Path(path)
    beside = path.with_name(f"partial-{path.name}")
    try:
        model.save(beside)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)  # a full disk needs its space back
        raise


def write_summary(path: str | os.PathLike, summary: dict) -> dict:
    """Write `summary.json`, whose presence means that the run is finished; returns the summary."""
    write_atomically(path, json.dumps(summary, indent=2) + "\n")
    return summary
