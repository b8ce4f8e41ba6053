"""Numbered version folders, `NAME/1`, `NAME/2`, ..., as TensorFlow Serving reads them."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from keras_vit.disk import failure_of_disk
from keras_vit.exported.folders import versions

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PARTIAL = ".partial-"


def write_version(output: str | os.PathLike, fill: Callable[[Path], None]) -> Path:
    """Let `fill` write into a new folder, and make that the next version once it returns.

    It is filled under a hidden name beside its place, where TensorFlow Serving does not look, and then renamed: a
    version is complete or absent, and no version is ever overwritten. When `fill` raises, nothing is left; what a
    killed process left is removed by the next one.

    Args:
        output: the folder of the versions; made where it does not exist.
        fill: called with the folder to write into.

    Returns:
        The new version's folder.

    Raises:
        ValueError: `output` is a file.
        OSError: the disk is full, or may not be written to.
    """
    output = Path(output)
    made = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"output expected a folder, received {str(output)!r}, where a file lies.") from None
    for left in output.glob(f"{PARTIAL}*"):
        _remove_abandoned(left)
    partial, lock = _new_partial(output)
    try:
        partial.chmod(0o755)  # mkdtemp closes it to all others, and a server runs under another account
        fill(partial)
        return _rename_to_next(partial, output)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # another export may have begun to use it
                folder.rmdir()
        reason = None if isinstance(error, ValueError) else failure_of_disk(error)
        if reason is not None:
            raise OSError(
                f"output expected a disk that can be written to, received {str(output)!r}, where writing failed "
                f"({reason}); nothing of this export is left."
            ) from error
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _new_partial(output: Path) -> tuple[Path, int | None]:
    """A new hidden folder, and the lock that says it is being written, which ends with the process."""
    while True:
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=output))
        try:
            lock = _lock(partial)
        except (BlockingIOError, FileNotFoundError):  # another export took it for abandoned in between
            continue
        if lock is None or partial.exists():
            return partial, lock
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """Hold a folder until the number returned is closed; None where the system has no such locks.

    Raises:
        BlockingIOError: another holds it.
    """
    if fcntl is None:
        return None
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(opened)
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
            return None
        raise
    return opened


def _remove_abandoned(partial: Path) -> None:
    """Remove a hidden folder that no process is writing to."""
    with contextlib.suppress(OSError):
        lock = _lock(partial)
        if lock is not None:  # else nobody knows
            shutil.rmtree(partial, ignore_errors=True)
            os.close(lock)


def _rename_to_next(partial: Path, output: Path) -> Path:
    while True:
        version = output / str(max(versions(output), default=0) + 1)
        try:
            partial.rename(version)
            return version
        except OSError:
            if not version.exists():  # else another export took the number in between
                raise
