"""One run at a time in a folder."""

import contextlib
import os
import socket
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

NAME = "run.lock"


@contextlib.contextmanager
def locked(workdir: str | os.PathLike):
    """Lock a run's folder inside the `with`. The system releases the lock when the process ends.

    The folder is created if it does not exist, and removed again if it is empty at the end.

    Raises:
        ValueError: another process has locked the folder.
    """
    workdir = Path(workdir)
    made = not workdir.exists()
    workdir.mkdir(parents=True, exist_ok=True)
    path = workdir / NAME
    opened = _open_locked(path)
    try:
        os.ftruncate(opened, 0)
        os.write(opened, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            path.unlink()
        os.close(opened)
        with contextlib.suppress(OSError):  # not empty
            if made:
                workdir.rmdir()


def _open_locked(path: Path) -> int:
    """Return the open file of the lock, locked by this process."""
    while True:
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _take(opened):
            os.close(opened)
            raise ValueError(
                f"workdir expected a folder that no other run is using, received {str(path.parent)!r}, where "
                f"{_holder(path)} is training; stop it, wait for its end, or name another folder."
            )
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(opened), path.stat()):
                return opened
        os.close(opened)  # the other process removed the file between our opening and locking it


def _take(opened: int) -> bool:
    """Lock an open file unless another process has locked it; return True on success or without lock support."""
    try:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(opened, 2**30, os.SEEK_SET)  # past the text, which Windows would make unreadable for others
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
    return "another process"
