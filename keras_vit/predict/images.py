"""What a user names on the command line -> the image files that are meant."""

import os
from collections.abc import Iterable, Iterator, Sequence

from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.kinds import KINDS


def image_files(names: Sequence[str], lines: Iterable[bytes] = ()) -> list[str] | Iterator[str]:
    """The files that arguments mean, in their order.

    Args:
        names: files, taken whatever they are called; folders, of which the image files in them and below are taken,
            sorted, hidden ones left out; `-` for `lines`.
        lines: names of the same kinds, one a line, read when they are asked for; empty lines are left out.

    Returns:
        A list; with `-` among the names an iterator, since nobody knows yet how many there are.

    Raises:
        ValueError: no image file lies in the folders, and nothing else is named.
    """
    if "-" in names:
        return _each(names, lines)
    files = list(_each(names, ()))
    if not files:
        kinds = ", ".join(KINDS)
        raise ValueError(f"images expected image files ({kinds}), found none in {', '.join(map(repr, names))}.")
    return files


def _each(names, lines) -> Iterator[str]:
    for name in names:
        if name == "-":
            for line in lines:
                if line.strip():
                    yield from _one(os.fsdecode(line.rstrip(b"\r\n")))
        else:
            yield from _one(name)


def _one(name: str) -> Iterator[str]:
    return image_files_below(name) if os.path.isdir(name) else iter((name,))
