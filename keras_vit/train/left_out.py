"""Broken files of a run, listed in `left_out.json`, so that the run can resume after the files are removed."""

import contextlib
import json
from pathlib import Path

from keras_vit.data.broken import BrokenFile
from keras_vit.data.folder import name_of
from keras_vit.data.table import folder_of
from keras_vit.train.workdir import write_atomically

NAME = "left_out.json"


def known_broken(workdir: Path) -> tuple[str, ...]:
    """Return the names of the files that a run has found broken, from the data's folder on."""
    written = Path(workdir) / NAME
    return tuple(json.loads(written.read_text())) if written.is_file() else ()


def absent_files(model: str, recipe: str | None) -> tuple[str, ...]:
    """Return the names of files that a run's workdir MODEL has found broken; none if `--recipe` names other data."""
    return () if recipe else known_broken(Path(model))


def remember_broken(workdir: Path, directory: str, paths: list[str]) -> None:
    """Add files of the data's folder to those that a run has found broken."""
    directory = folder_of(directory)
    names = {name for path in paths if (name := name_of(path, directory)) is not None}
    known = set(known_broken(workdir))
    if names - known:
        write_atomically(Path(workdir) / NAME, json.dumps(sorted(names | known), indent=2) + "\n")


@contextlib.contextmanager
def remembering_broken(workdir: Path, directory: str | None):
    """Remember the file that a run stops at inside the `with`."""
    try:
        yield
    except BrokenFile as error:
        if directory is not None:
            remember_broken(workdir, directory, [error.path])
        raise
