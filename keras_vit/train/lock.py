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
    """Hold a run's folder inside the `with`. The system releases it when the process ends, however that ends.

    Args:
        workdir: the folder; made where it does not exist, and removed again if it is empty at the end.

    Raises:
        ValueError: another process holds it.
    """
    workdir = Path(workdir)
    made = not workdir.exists()
    workdir.mkdir(parents=True, exist_ok=True)
    path = workdir / NAME
    opened = _opened(path)
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


def _opened(path: Path) -> int:
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
        os.close(opened)  # its holder ended, and removed the file, between our opening and locking it


def _take(opened: int) -> bool:
    """Lock an open file unless another process has it; True as well where the file system has no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(opened, 2**30, os.SEEK_SET)  # past the text, which Windows would keep others from reading
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
