"""Write numbered version folders, `NAME/1`, `NAME/2`, ..., as TensorFlow Serving reads them."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from keras_vit.disk import failure_of_disk

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PARTIAL = ".partial-"  # begins the name of a folder that is being written


def versions(output: str | os.PathLike) -> list[int]:
    """Return the version numbers in a folder, ascending."""
    folder = Path(output)
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def write_version(output: str | os.PathLike, fill: Callable[[Path], None]) -> Path:
    """Write the next version and return its folder.

    `fill` writes into a hidden folder, which TensorFlow Serving ignores. The folder is then renamed to its number, so
    a version is complete or absent, and no version is overwritten. If `fill` raises an error, the hidden folder is
    removed. The next export removes the hidden folder of a killed process.

    Args:
        output: folder of the versions, created if it does not exist.
        fill: a function that writes the files into the folder it is called with.

    Raises:
        ValueError: `output` is a file.
        OSError: the disk is full or not writable.
    """
    output = Path(output)
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"output expected a folder, received {str(output)!r}, where a file lies.") from None
    for partial in output.glob(f"{PARTIAL}*"):
        _remove_abandoned(partial)
    partial, lock = _new_partial(output)
    try:
        partial.chmod(0o755)  # mkdtemp allows its owner only, and a server may run under another account
        fill(partial)
        return _rename_to_next(partial, output)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for folder in created:
            with contextlib.suppress(OSError):  # another export may use it by now
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
    """Create a hidden folder, and lock it. The lock ends with the process. It is None if the system has no locks."""
    while True:
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=output))
        try:
            lock = _lock(partial)
        except (BlockingIOError, FileNotFoundError):  # another export removed it as abandoned
            continue
        if lock is None or partial.exists():
            return partial, lock
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder, and return a file descriptor whose closing unlocks it; None if the system has no such locks.

    Raises:
        BlockingIOError: another process has locked it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def _remove_abandoned(partial: Path) -> None:
    """Remove a hidden folder that no process is writing to."""
    with contextlib.suppress(OSError):
        lock = _lock(partial)
        if lock is not None:  # without locks a folder in use cannot be told from an abandoned one
            shutil.rmtree(partial, ignore_errors=True)
            os.close(lock)


def _rename_to_next(partial: Path, output: Path) -> Path:
    while True:
        version = output / str(max(versions(output), default=0) + 1)
        try:
            partial.rename(version)
            return version
        except OSError:
            if not version.exists():  # otherwise another export has taken the number
                raise
