"""A folder -> its image files, and one line about the files that are left out."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator

from keras_vit.preprocessing.decode import missing_package
from keras_vit.preprocessing.kinds import HEAD, SUFFIXES, is_camera_raw, kind_of, other_kind_of

NOT_IMAGES = "not images"
SYSTEM_FILES = ("thumbs.db", "desktop.ini")  # of Windows, passed over as files are whose names begin with a dot
_NEED_PACKAGES = (".heic", ".heif", ".hif", ".avif")


class LeftOut:
    """Files of a folder that are not taken, counted by reason.

    Args:
        folder: what to call it.
    """

    def __init__(self, folder: str):
        self.folder, self._counts, self._first = folder, Counter(), {}

    def add(self, path: str, reason: str) -> None:
        """Count a file."""
        self._counts[reason] += 1
        self._first.setdefault(reason, os.path.basename(path))

    def warn(self) -> None:
        """Warn in one line of all files that were counted; nothing is said where there are none."""
        if self._counts:
            rows = [
                f"{count:,} {reason} ({self._first[reason]}{', ...' * (count > 1)})"
                for reason, count in self._counts.most_common()
            ]
            warnings.warn(f"left out of {self.folder!r}: {'; '.join(rows)}.", stacklevel=2)


def image_files_below(
    folder: str, gfile=None, left_out: LeftOut | None = None, decodable: bool = False
) -> Iterator[str]:
    """Yield the paths of the image files in a folder and below, in each folder its own files first, sorted.

    A file is an image file if its name says so, or its first bytes: a damaged `a.jpg` is one, and so is `IMG_0001`
    if it holds a JPEG. What has a name with a dot in front is passed over. Links to folders are followed, unless they
    lead back to a folder that they lie in.

    Args:
        folder: to look in; its own name may be any.
        gfile: `tf.io.gfile`, for places that are not local; the local file system where None.
        left_out: counts the other files; where None, one warning names them in the end, unless no file is an image.
        decodable: whether to leave out camera raw files and images whose package is not installed, too.

    Raises:
        ValueError: one of the folders may not be read.
    """
    counted, any_is_taken = LeftOut(folder) if left_out is None else left_out, False
    for here, folders, files in gfile.walk(folder) if gfile else os.walk(folder, onerror=_refuse, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] != "." and not _leads_back(here, name, folder))
        for name in sorted(files):
            if name[0] == "." or name.lower() in SYSTEM_FILES:
                continue
            path = f"{here.rstrip('/')}/{name}" if gfile else os.path.join(here, name)
            if reason := _reason_against(path, gfile, decodable):
                counted.add(path, reason)
            else:
                any_is_taken = True
                yield path
    if left_out is None and any_is_taken:
        counted.warn()


def _reason_against(path: str, gfile, decodable: bool) -> str | None:
    """Return why a file is not to be taken, None for one that is."""
    if is_camera_raw(path):
        return "camera raw" if decodable else None
    named = path.lower().endswith(SUFFIXES)
    if named and not (decodable and path.lower().endswith(_NEED_PACKAGES)):
        return None
    if not gfile and not os.path.isfile(path):  # a pipe would be waited for
        return None if named else NOT_IMAGES
    try:
        with (gfile.GFile if gfile else open)(path, "rb") as file:
            head = file.read(HEAD)
    except Exception:  # of any file system; whoever decodes the file says what is wrong with it
        return None
    kind = kind_of(head)
    if kind is None:
        return None if named else other_kind_of(head) or NOT_IMAGES
    needed = missing_package(kind) if decodable else None
    return f"{kind}, read after {needed}" if needed else None


def _refuse(error: OSError) -> None:
    raise ValueError(f"images expected folders that can be read, received {error.filename!r}: {error.strerror}.")


def _leads_back(here: str, name: str, folder: str) -> bool:
    path = os.path.join(here, name)
    if not os.path.islink(path):
        return False
    target = os.path.join(os.path.realpath(path), "")
    while len(path) > len(folder):
        path = os.path.dirname(path)
        if os.path.join(os.path.realpath(path), "").startswith(target):
            return True
    return False
