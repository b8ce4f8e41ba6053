"""Find the image files in a folder, and warn once about the other files."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator

from keras_vit.preprocessing.decode import missing_package
from keras_vit.preprocessing.kinds import HEAD, SUFFIXES, is_camera_raw, kind_of, other_kind_of

NOT_IMAGES = "not images"
SYSTEM_FILES = ("thumbs.db", "desktop.ini")  # written by Windows; skipped, like files whose names begin with a dot
_NEED_PACKAGES = (".heic", ".heif", ".hif", ".avif")


class SkippedFiles:
    """Count the skipped files of a folder by reason.

    Args:
        folder: name of the folder in the warning.
    """

    def __init__(self, folder: str):
        self.folder, self._counts, self._first = folder, Counter(), {}

    def add(self, path: str, reason: str) -> None:
        """Count one skipped file."""
        self._counts[reason] += 1
        self._first.setdefault(reason, os.path.basename(path))

    def warn(self) -> None:
        """Warn once about all counted files, if there are any."""
        if self._counts:
            counts = [
                f"{count:,} {reason} ({self._first[reason]}{', ...' * (count > 1)})"
                for reason, count in self._counts.most_common()
            ]
            warnings.warn(f"left out of {self.folder!r}: {'; '.join(counts)}.", stacklevel=2)


def image_files_below(
    folder: str, gfile=None, left_out: SkippedFiles | None = None, decodable: bool = False
) -> Iterator[str]:
    """Yield the paths of the image files in a folder and its subfolders, sorted, a folder's own files first.

    A file is an image file by its name or by its first bytes: a damaged `a.jpg` is one, and so is `IMG_0001` if it
    holds a JPEG. Names that begin with a dot are skipped. Links to folders are followed, unless they lead back to a
    folder that contains them.

    Args:
        folder: the folder to search.
        gfile: `tf.io.gfile` for remote file systems; None for the local one.
        left_out: counts the other files; if None, one warning names them at the end, unless no file is an image.
        decodable: whether to skip camera raw files and images whose package is not installed, too.

    Raises:
        ValueError: a folder cannot be read.
    """
    skipped, any_image = SkippedFiles(folder) if left_out is None else left_out, False
    for parent, folders, files in gfile.walk(folder) if gfile else os.walk(folder, onerror=_refuse, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != "." and not _leads_back(parent, name, folder))
        for name in sorted(files):
            if name[0] == "." or name.lower() in SYSTEM_FILES:
                continue
            path = f"{parent.rstrip('/')}/{name}" if gfile else os.path.join(parent, name)
            if reason := _reason_against(path, gfile, decodable):
                skipped.add(path, reason)
            else:
                any_image = True
                yield path
    if left_out is None and any_image:
        skipped.warn()


def _reason_against(path: str, gfile, decodable: bool) -> str | None:
    """Return why a file is skipped; None for an image file."""
    if is_camera_raw(path):
        return "camera raw" if decodable else None
    named = path.lower().endswith(SUFFIXES)
    if named and not (decodable and path.lower().endswith(_NEED_PACKAGES)):
        return None
    if not gfile and not os.path.isfile(path):  # reading a pipe would wait
        return None if named else NOT_IMAGES
    try:
        with (gfile.GFile if gfile else open)(path, "rb") as file:
            head = file.read(HEAD)
    except Exception:  # file systems raise different types; decoding the file reports the error
        return None
    kind = kind_of(head)
    if kind is None:
        return None if named else other_kind_of(head) or NOT_IMAGES
    needed = missing_package(kind) if decodable else None
    return f"{kind}, read after {needed}" if needed else None


def _refuse(error: OSError) -> None:
    raise ValueError(f"images expected folders that can be read, received {error.filename!r}: {error.strerror}.")


def _leads_back(parent: str, name: str, folder: str) -> bool:
    """Return whether a link leads to a folder that contains it."""
    path = os.path.join(parent, name)
    if not os.path.islink(path):
        return False
    target = os.path.join(os.path.realpath(path), "")
    while len(path) > len(folder):
        path = os.path.dirname(path)
        if os.path.join(os.path.realpath(path), "").startswith(target):
            return True
    return False
