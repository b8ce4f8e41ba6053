"""Find exports on disk: version folders `NAME/1`, `NAME/2`, ... with one main file per format."""

import os
from pathlib import Path

from keras_vit.export.formats import FORMATS
from keras_vit.export.versions import versions

SUFFIXES = {Path(row.file).suffix for row in FORMATS.values()}


def version_folder(source: str | os.PathLike) -> Path | None:
    """Return the version folder at a path, or the newest one in it; None if there is no export."""
    path = Path(source)
    newest = [path / str(number) for number in versions(path)[-1:]]
    for folder in (path, *newest):
        if (folder / "manifest.json").is_file() and formats_in(folder):
            return folder
    return None


def formats_in(folder: Path) -> list[str]:
    """Return the formats in a version folder, in the order of `FORMATS`."""
    return [name for name, row in FORMATS.items() if (folder / row.file).is_file()]
