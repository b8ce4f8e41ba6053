"""Find the image files that command-line arguments mean."""

import os
from collections.abc import Iterable, Iterator, Sequence

from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.kinds import KINDS


def image_files(names: Sequence[str], lines: Iterable[bytes] = ()) -> list[str] | Iterator[str]:
    """Return the files that arguments mean, in the arguments' order.

    Args:
        names: files with any name; folders, which stand for the image files in them and their subfolders; `-`, which
            stands for `lines`.
        lines: more files and folders, one per line, read lazily; empty lines are skipped.

    Returns:
        A list; an iterator if the names contain `-`, because the number of files is not known yet.

    Raises:
        ValueError: the folders contain no image file, and no file is named.
    """
    if "-" in names:
        return _files_of_names(names, lines)
    files = list(_files_of_names(names, ()))
    if not files:
        kinds = ", ".join(KINDS)
        raise ValueError(f"images expected image files ({kinds}), found none in {', '.join(map(repr, names))}.")
    return files


def _files_of_names(names, lines) -> Iterator[str]:
    for name in names:
        if name == "-":
            for line in lines:
                if line.strip():
                    yield from _files_of_name(os.fsdecode(line.rstrip(b"\r\n")))
        else:
            yield from _files_of_name(name)


def _files_of_name(name: str) -> Iterator[str]:
    return image_files_below(name) if os.path.isdir(name) else iter((name,))
