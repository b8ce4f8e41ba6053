"""The models that are served: folders of numbered versions, watched as TensorFlow Serving watches them."""

import contextlib
import gc
import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from keras_vit.private import saved_model_message
from keras_vit.serve.errors import Refusal
from keras_vit.serve.signature import Batching, Signature, signatures_of


@dataclass(frozen=True)
class Version:
    """A loaded version; a request holds the one that it began with, so that none is dropped under it.

    Args:
        model: its model's name.
        number: of the version.
        signatures: by name, `serving_default` first.
        definitions: the signatures as the file declares them, as TensorFlow Serving prints them.
        manifest: what `manifest.json` says; empty where there is none.
    """

    model: str
    number: int
    signatures: dict[str, Signature]
    definitions: dict = field(repr=False)
    manifest: dict = field(repr=False)

    def signature(self, name: str) -> Signature:
        """One signature; TensorFlow Serving's sentence where there is none of that name."""
        if name not in self.signatures:
            raise Refusal(400, f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]


class Model:
    """The versions of one model, the newest ones loaded.

    Args:
        folder: `saved_models/NAME`.
        keep: how many of the newest versions to serve.
        batching: how concurrent calls are gathered.

    Raises:
        ValueError: no version with a SavedModel lies there, or the newest of them cannot be loaded.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 1, batching: Batching | None = None):
        self.folder, self.keep, self.batching = Path(folder), keep, batching or Batching()
        self.name = self.folder.resolve().name
        self.versions: dict[int, Version] = {}
        self.failures: dict[int, str] = {}
        self._seen_broken: dict[int, tuple] = {}
        self.poll()
        newest = max({*self.versions, *self.failures}, default=None)  # of those seen: the folder may have changed since
        if newest is None:
            none = ", where no version holds a SavedModel" if version_numbers(self.folder) else ""
            raise ValueError(
                f"model expected a folder of exported versions (saved_models/NAME with 1/, 2/, ...), "
                f"received {str(folder)!r}{none}."
            )
        if newest in self.failures:
            raise ValueError(self.failures[newest])

    def poll(self) -> list[str]:
        """Load what is new, let go of what is old or gone, and say what was done, one sentence each."""
        numbers, done = version_numbers(self.folder), []
        wanted = [number for number in numbers if not _of_other_formats(self.folder / str(number))][-self.keep :]
        for number in wanted:
            state = _state(self.folder / str(number))
            if number in self.versions or self._seen_broken.get(number) == state:
                continue
            try:
                version = load_version(self.name, self.folder / str(number), self.batching)
            except ValueError as error:
                self._seen_broken[number] = state  # tried again when a file of it changes
                self.failures[number] = str(error)
                done.append(f"{self.name}: {error}")
            else:
                self._seen_broken.pop(number, None)
                self.versions = {**self.versions, number: version}
                self.failures.pop(number, None)  # last, so that `rest.status` finds the version in one of the two
                done.append(f"{self.name}: version {number} is loaded")
        # A version goes only when `keep` better ones have come, so that there is always one to ask.
        kept = [number for number in wanted if number in self.versions]
        if kept:
            if len(kept) < self.keep:
                older = [number for number in sorted(self.versions) if number not in kept]
                older = [number for number in older if (self.folder / str(number)).is_dir()]
                kept += older[-(self.keep - len(kept)) :]
            gone = sorted(set(self.versions) - set(kept))
            if gone:
                self.versions = {number: self.versions[number] for number in kept}
                done += [f"{self.name}: version {number} is let go" for number in gone]
                gc.collect()  # a loaded SavedModel is a ring of references
        return done

    def version(self, number: int | None = None) -> Version:
        """One version, the newest by default; TensorFlow Serving's sentence where it is not served."""
        versions = self.versions  # one look: `poll` puts another dict in its place
        number = max(versions) if number is None else number
        if number not in versions:
            raise Refusal(404, f"Servable not found for request: Specific({self.name}, {number})")
        return versions[number]


class Repository:
    """All models of a server, and the thread that watches their folders.

    Args:
        folders: of the models.
        keep: how many of the newest versions of each to serve.
        batching: how concurrent calls are gathered.
        poll_seconds: time between two looks at the folders.
        report: called with each sentence about what changed.

    Raises:
        ValueError: a folder holds no version that can be loaded, or two have one name.
    """

    def __init__(self, folders, keep: int = 1, batching: Batching | None = None, poll_seconds=2.0, report=print):
        self.models: dict[str, Model] = {}
        for folder in folders:
            name = Path(folder).resolve().name
            if name in self.models:
                raise ValueError(f"models expected folders of different names, received two named {name!r}.")
            self.models[name] = Model(folder, keep, batching)
        self._stopped, self._poll_seconds, self._report = threading.Event(), poll_seconds, report
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)

    def __enter__(self):
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._poll_seconds):
            for model in self.models.values():
                try:
                    for sentence in model.poll():
                        self._say(sentence)
                except Exception as error:  # such as a folder that cannot be read just now; what is loaded goes on
                    self._say(f"{model.name}: {type(error).__name__}: {error}")

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed pipe or file, a full disk
            self._report(sentence)

    def model(self, name: str) -> Model:
        """One model; TensorFlow Serving's sentence where it is not served."""
        if name not in self.models:
            raise Refusal(404, f"Servable not found for request: Latest({name})")
        return self.models[name]


def version_numbers(folder: Path) -> list[int]:
    """The numbered folders in a folder, ascending; hidden and other names are no versions."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def load_version(model: str, folder: Path, batching: Batching) -> Version:
    """Load a version and call each of its signatures once, so that the first request finds it warm.

    Raises:
        ValueError: it is no SavedModel, or not all of it lies there.
    """
    manifest = _manifest(folder)
    if missing := _incomplete(folder, manifest):
        raise ValueError(f"model expected a whole export in {str(folder)!r}, found {missing}.")
    try:
        definitions = _definitions(folder)
        loaded = tf.saved_model.load(str(folder))
        signatures = signatures_of(loaded, batching)
        for signature in signatures.values():
            signature(signature.example())
    except Exception as error:  # TensorFlow raises nearly anything for a damaged file
        raise ValueError(
            f"model expected an export that TensorFlow can load, received {str(folder)!r} "
            f"({type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason'})."
        ) from error
    return Version(model, int(folder.name), signatures, definitions, manifest)


def _manifest(folder: Path) -> dict:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        manifest = None
    files = manifest.get("files", {}) if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not all(
        isinstance(f, dict) and type(f.get("size")) is int for f in files.values()
    ):
        raise ValueError(f"model expected a whole export in {str(folder)!r}, found a damaged manifest.json.")
    return manifest


def _of_other_formats(folder: Path) -> bool:
    """Whether a version is a whole export without a SavedModel, as `keras-vit export --formats onnx` writes it."""
    if (folder / "saved_model.pb").is_file():
        return False
    try:
        files = _manifest(folder).get("files")
    except (ValueError, OSError):  # said when the version is loaded
        return False
    return bool(files) and "saved_model.pb" not in files


def _incomplete(folder: Path, manifest: dict) -> str | None:
    """What is missing, by the manifest where there is one: a version may be on its way, copied file by file."""
    if not (folder / "saved_model.pb").is_file():
        return "no saved_model.pb"
    for name, file in manifest.get("files", {}).items():
        if name != "saved_model.pb" and not name.startswith("variables/"):
            continue  # of another format
        size, found = file["size"], (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            return f"{name} of {'no' if found is None else f'{found:,}'} bytes in place of {size:,}"
    return None


def _definitions(folder: Path) -> dict:
    saved = saved_model_message()
    try:
        saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    except DecodeError:
        raise ValueError("saved_model.pb is damaged") from None
    print_as = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return {
        name: MessageToDict(definition, **print_as)
        for name, definition in sorted(saved.meta_graphs[0].signature_def.items())
        if not name.startswith("__")
    }


def _state(folder: Path) -> tuple:
    """Changes when a file below the folder does."""
    states = []
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except OSError:
            continue
        states.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(sorted(states))
