"""Download published files into a cache, and check them."""

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import quote

from keras_vit.weights.catalogue import file_of, find_released
from keras_vit.weights.complete_config import row_of_source
from keras_vit.weights.hub import is_hub, locate_on_hub, stated_sha256
from keras_vit.weights.released import RELEASED, Released
from keras_vit.weights.timm_checkpoints import TimmCheckpoint, find_timm_checkpoint

_CHUNK = 1 << 20  # bytes
_ATTEMPTS = 3  # attempts to resume a broken transfer
_TIMEOUT = 30  # seconds without a byte


def home() -> Path:
    """Return the folder of downloads: `KERAS_VIT_HOME`, else `keras_vit` in Keras's cache."""
    configured = os.environ.get("KERAS_VIT_HOME")
    if configured:
        return Path(configured).expanduser()
    return Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser()) / "keras_vit"


def locate(source: str | os.PathLike, verified: bool = True) -> Path:
    """Return the path of a file of weights; download the file of a tag first.

    Args:
        source: a path, a tag, a URL of the catalogue, or a model on the Hugging Face hub,
            `hf://ORG/NAME[/FILE][@REVISION]`.
        verified: whether to check the SHA-256 of a published file in the cache.

    Raises:
        FileNotFoundError: the file does not exist, or cannot be downloaded.
        ImportError: the package for the hub is not installed.
        ValueError: `source` is neither a file nor a known tag, or the file in the cache has changed.
    """
    if is_hub(source):
        return _from_hub(source, verified)
    path = Path(source)
    if path.exists():
        return path
    try:
        released = find_released(str(source))
    except ValueError:
        if (row := find_timm_checkpoint(source)) is not None:
            return _of_timm(row, verified)
        if "://" in str(source):
            raise
        if not isinstance(source, str) or path.suffix in _FILES or len(path.parts) > 1:
            raise FileNotFoundError(f"source expected a file of weights, found nothing at {str(path)!r}.") from None
        raise
    return _cached(released, verified)


def _cached(released: Released, verified: bool) -> Path:
    cached = home() / released.place
    return cached if cached.is_file() and not verified else download(released)


def _of_timm(row: TimmCheckpoint, verified: bool) -> Path:
    """Return the path of a tag's file: from the hub, or from the publisher if the hub has none."""
    if row.hub is not None:
        return _from_hub(row.hub, verified)
    if row.url:
        return _cached(file_of(row), verified)
    raise ValueError(f"weights expected a tag with a published file, received {row.tag!r} without one.")


def _from_hub(source: str, verified: bool) -> Path:
    path = locate_on_hub(source)
    expected = stated_sha256(path) if verified else None
    if expected is not None and (received := _sha256(path)) != expected:
        raise ValueError(
            f"{source!r} expected SHA-256 {expected}, as the hub states, received {received} of "
            f"{str(path.resolve())!r}, which was changed or damaged: delete it to download it again."
        )
    return path


def published_classes(source: str | os.PathLike) -> int | None:
    """Return the number of classes of a tag, a URL or a name on the hub; None for a path, or if unknown."""
    if is_hub(source) or Path(source).exists():
        row = row_of_source(source)
        return row.classes or None if row else None
    try:
        return find_released(str(source)).classes
    except ValueError:
        if (row := find_timm_checkpoint(source)) is None:
            raise
        return row.classes or None


_FILES = {".npz", ".safetensors", ".keras", ".h5", ".hdf5", ".bin", ".pth", ".pt", ".tar", ".ckpt", ".json"}


def download_published(name: str, to: str | os.PathLike | None = None) -> Path:
    """Download the file of a tag, an official name, a URL of the catalogue or a name on the hub, and return its path.

    Args:
        name: the name.
        to: folder for the file; None for the cache.

    Raises:
        FileNotFoundError: the file cannot be downloaded.
        ValueError: the name is unknown, or the file is on the hub, which has its own cache, and `to` is a folder.
    """
    row = find_timm_checkpoint(name)
    if row is not None and row.tag not in {released.tag for released in RELEASED}:
        if row.hub is None:
            return download(file_of(row), to)
        name = row.hub
    if not is_hub(name):
        return download(name, to)
    if to is not None:
        raise ValueError(
            "to expected None for a model on the hub, which has its own cache in HF_HOME, received a folder."
        )
    return locate(name)


def download(released: Released | str, to: str | os.PathLike | None = None) -> Path:
    """Download a published file unless it exists, and return its path.

    The file is written under another name and renamed when complete. A broken transfer resumes, and concurrent
    processes share one transfer. Known sizes and SHA-256 hashes are checked. An unknown hash is recorded next to the
    file at the first download, and checked later. `KERAS_VIT_WEIGHTS_URL` lists mirrors, separated by spaces, that
    replace the publisher's server. A mirror with a wrong file is skipped.

    Args:
        released: a row, a tag of `list_weights()` or an official name.
        to: folder for the file, which keeps its path on the server; the cache if None.

    Raises:
        FileNotFoundError: no server has the file; the message names the path for a manual download.
        ValueError: the received or the existing file is no archive, or has another size or hash than published or
            recorded. A received file is deleted.
    """
    if isinstance(released, str):
        released = find_released(released)
    place = (home() if to is None else Path(to)) / released.place
    if place.is_file():
        _require_unchanged(released, place)
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.with_name(place.name + ".lock")):
        if not place.is_file():  # another process may have downloaded it
            _fetch(released, place)
    return place


def _urls(released: Released) -> list[str]:
    """Return the URLs of a file on the mirrors, or on its publisher's server if there are none."""
    mirrors = os.environ.get("KERAS_VIT_WEIGHTS_URL", "").split()
    return [f"{mirror.rstrip('/')}/{quote(released.place)}" for mirror in mirrors] or [released.url]


@contextlib.contextmanager
def _locked(lock: Path):
    """Lock a file inside the `with`. The system releases the lock if the process dies."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock: two processes may both download, and the last rename wins
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(released: Released, place: Path) -> None:
    partial = place.with_name(place.name + ".partial")
    reasons, fault = [], None
    for url in _urls(released):
        for _ in range(_ATTEMPTS):
            try:
                _transfer(url, partial)
            except (urllib.error.HTTPError, ValueError) as error:  # another attempt would fail, too
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
        f"weights {released.tag!r} could not be downloaded ({reasons[-1]}); put {released.url} at {str(place)!r}."
    )


def _transfer(url: str, partial: Path) -> None:
    """Download to `partial`. Resume it if the server still has the same file.

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
        raise ConnectionResetError("the server's file is shorter than the partial download") from None
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
    """Raise a ValueError if a file's SHA-256 differs from the published or recorded one, if there is one."""
    known = [digits for digits in (released.sha256, _recorded(place)) if digits]
    if not known:
        return
    received = _sha256(place)
    if expected := next((digits for digits in known if not received.startswith(digits)), None):
        raise ValueError(
            f"weights {released.tag!r} expected SHA-256 {expected}, received {received} of {str(place)!r}, which was "
            f"changed or damaged: delete it and {_record(place).name!r} to download it again."
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
    """Return a sentence about what is wrong with a download. Record its hash and return None if it is right."""
    record, recorded = _record(place), _recorded(place)
    size = partial.stat().st_size
    if released.size not in (None, size):
        return f"weights {released.tag!r} expected {released.size:,} bytes, received {size:,} from {url}."
    with partial.open("rb") as file:
        is_page = file.read(64).lstrip().startswith(b"<")  # an HTML page, such as a login form
    if is_page or (place.suffix == ".npz" and not zipfile.is_zipfile(partial)):
        return f"weights {released.tag!r} expected a whole {place.suffix} file, received something else from {url}."
    received = _sha256(partial)
    if not (received.startswith(released.sha256 or "") and received == (recorded or received)):
        published = released.sha256 and not received.startswith(released.sha256)
        expected = released.sha256 if published else f"{recorded}, as recorded in {str(record)!r}"
        return f"weights {released.tag!r} expected SHA-256 {expected}, received {received} from {url}."
    record.write_text(f"{received}  {place.name}\n")
    return None
