"""A published file: fetched once, checked, kept."""

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import quote

from keras_vit.weights.catalogue import find_released
from keras_vit.weights.released import SERVER, Released

_CHUNK = 1 << 20  # bytes
_ATTEMPTS = 3  # of a transfer that breaks off, each going on where the last one stopped
_TIMEOUT = 30  # seconds without a byte


def home() -> Path:
    """Folder of the downloads: `KERAS_VIT_HOME`, else `keras_vit` in Keras's own cache."""
    own = os.environ.get("KERAS_VIT_HOME")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser()) / "keras_vit"


def locate(source: str | os.PathLike, verified: bool = True) -> Path:
    """The path of a file of weights, downloaded first where `source` is a tag.

    Args:
        source: a path or a tag.
        verified: whether the SHA-256 of a published file that is in the cache is checked.

    Raises:
        FileNotFoundError: there is no such file, and no way to fetch it.
        ValueError: `source` is neither a file nor a known tag, or the file in the cache has changed.
    """
    path = Path(source)
    if path.exists():
        return path
    try:
        released = find_released(str(source))
    except ValueError:
        if not isinstance(source, str) or path.suffix in _FILES or len(path.parts) > 1:
            raise FileNotFoundError(f"source expected a file of weights, found nothing at {str(path)!r}.") from None
        raise
    cached = home() / released.path
    return cached if cached.is_file() and not verified else download(released)


def published_classes(source: str | os.PathLike) -> int | None:
    """Classes of the published file that a tag means; None of a path, and where the tag does not say."""
    return None if Path(source).exists() else find_released(str(source)).classes


_FILES = {".npz", ".safetensors", ".keras", ".h5", ".hdf5", ".bin", ".pth", ".pt", ".tar", ".ckpt", ".json"}


def download(released: Released | str, to: str | os.PathLike | None = None) -> Path:
    """Fetch a published file unless it is there already.

    It is written beside its place and renamed when it is whole; a broken transfer goes on where it stopped, and two
    processes that ask for one file wait for one transfer. Size and SHA-256 are checked where they are known; where
    not, the hash is recorded beside the file and holds from then on. The hash of a file that is there already is
    checked. `KERAS_VIT_WEIGHTS_URL` names mirrors to ask in place of the publisher, separated by spaces; one whose
    file is not right is passed over.

    Args:
        released: a row, a tag of `list_weights()` or an official name.
        to: folder to put the file in, at its path on the server, for several files share a name; the cache where None.

    Raises:
        FileNotFoundError: no server gave the file; the message says where to put it by hand.
        ValueError: what came is no archive, or has another size or hash than published or recorded; it is not kept.
            Or the file that is there already has another hash.
    """
    if isinstance(released, str):
        released = find_released(released)
    place = (home() if to is None else Path(to)) / released.path
    if place.is_file():
        _require_unchanged(released, place)
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(place.with_name(place.name + ".lock")):
        if not place.is_file():  # another process may have fetched it meanwhile
            _fetch(released, place)
    return place


def _servers() -> list[str]:
    return [url.rstrip("/") for url in os.environ.get("KERAS_VIT_WEIGHTS_URL", "").split() or [SERVER]]


@contextlib.contextmanager
def _only_one(lock: Path):
    """Hold a lock file; the system lets go of it when a process dies."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there two processes may both fetch, and the last rename stays
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(released: Released, place: Path) -> None:
    partial = place.with_name(place.name + ".partial")
    reasons, fault = [], None
    for server in _servers():
        url = f"{server}/{quote(released.path)}"
        for _ in range(_ATTEMPTS):
            try:
                _transfer(url, partial)
            except (urllib.error.HTTPError, ValueError) as error:  # asking again would give the same
                reasons.append(f"{url}: {error}")
                break
            except (OSError, http.client.HTTPException) as error:
                reasons.append(f"{url}: {getattr(error, 'reason', None) or error}")
            else:
                fault = _fault(released, partial, place, url)
                if fault is None:
                    partial.replace(place)
                    return
                partial.unlink()
                break
    if fault is not None:
        raise ValueError(fault)
    raise FileNotFoundError(
        f"weights {released.tag!r} could not be fetched ({reasons[-1]}); put {released.url} at {str(place)!r}."
    )


def _transfer(url: str, partial: Path) -> None:
    """Bring `partial` to its full length, from where it stands if the server still has the same file.

    Raises:
        OSError: the connection broke or ended early.
    """
    version = partial.with_name(partial.name + ".etag")
    done = partial.stat().st_size if partial.is_file() and version.is_file() else 0
    request = urllib.request.Request(url)
    if done:
        request.add_header("Range", f"bytes={done}-")
        request.add_header("If-Range", version.read_text())
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not done:
            raise
        partial.unlink()  # longer than the server's file
        raise ConnectionResetError("the file there is shorter than what had come") from None
    with response:
        resumed = response.status == 206 and done
        length = response.headers.get("Content-Length")
        total = (int(length) + (done if resumed else 0)) if length else None
        etag = response.headers.get("ETag")
        if etag and not etag.startswith("W/"):
            version.write_text(etag)
        else:
            version.unlink(missing_ok=True)
        with partial.open("ab" if resumed else "wb") as file, _bar(partial, total, done if resumed else 0) as bar:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        if total is not None and partial.stat().st_size != total:
            raise ConnectionResetError(f"the transfer ended after {partial.stat().st_size:,} of {total:,} bytes")
    version.unlink(missing_ok=True)


def _bar(partial, total, done):
    from tqdm import tqdm

    name = partial.name.removesuffix(".partial")
    return tqdm(total=total, initial=done, unit="B", unit_scale=True, desc=name, disable=None)


def _require_unchanged(released: Released, place: Path) -> None:
    """Raise a ValueError where a file's SHA-256 is another one than published or recorded; one put by hand has none."""
    expected = released.sha256 or _recorded(place)
    if expected is None:
        return
    received = _sha256(place)
    if received != expected:
        raise ValueError(
            f"weights {released.tag!r} expected SHA-256 {expected}, received {received} of {str(place)!r}, which was "
            f"changed or damaged: delete it and {_record(place).name!r}, and it is fetched again."
        )


def _record(place: Path) -> Path:
    return place.with_name(place.name + ".sha256")


def _recorded(place: Path) -> str | None:
    record = _record(place)
    words = record.read_text(encoding="utf-8", errors="replace").split() if record.is_file() else []
    return words[0] if words else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(released: Released, partial: Path, place: Path, url: str) -> str | None:
    """What is wrong with what came, in a sentence; where nothing is, its hash is recorded for the next time."""
    record, recorded = _record(place), _recorded(place)
    size = partial.stat().st_size
    if released.size not in (None, size):
        return f"weights {released.tag!r} expected {released.size:,} bytes, received {size:,} from {url}."
    with partial.open("rb") as file:
        is_page = file.read(64).lstrip().startswith(b"<")  # that says to log in, for instance
    if is_page or (place.suffix == ".npz" and not zipfile.is_zipfile(partial)):
        return f"weights {released.tag!r} expected a whole {place.suffix} file, received something else from {url}."
    received = _sha256(partial)
    if received != (released.sha256 or recorded or received):
        said = released.sha256 or f"{recorded}, as recorded in {str(record)!r}"
        return f"weights {released.tag!r} expected SHA-256 {said}, received {received} from {url}."
    record.write_text(f"{received}  {place.name}\n")
    return None
