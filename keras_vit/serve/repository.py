"""Load models from folders of numbered versions, and watch the folders as TensorFlow Serving does."""

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
    """A loaded version of a model. A request keeps a reference to its version, which outlives an update.

    Args:
        model: name of the model.
        number: version number.
        signatures: the signatures by name, `serving_default` first.
        definitions: the signature definitions of the SavedModel, as TensorFlow Serving prints them.
        manifest: content of `manifest.json`; empty without one.
    """

    model: str
    number: int
    signatures: dict[str, Signature]
    definitions: dict = field(repr=False)
    manifest: dict = field(repr=False)

    def signature(self, name: str) -> Signature:
        """Return a signature, or raise a Refusal with TensorFlow Serving's message."""
        if name not in self.signatures:
            raise Refusal(400, f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]


class Model:
    """The newest versions of one model.

    Args:
        folder: `saved_models/NAME`.
        keep: number of newest versions to serve.
        batching: settings of batching.

    Raises:
        ValueError: the folder holds no version with a SavedModel, or the newest one cannot be loaded.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 1, batching: Batching | None = None):
        self.folder, self.keep, self.batching = Path(folder), keep, batching or Batching()
        self.name = self.folder.resolve().name
        self.versions: dict[int, Version] = {}
        self.failures: dict[int, str] = {}
        self._seen_broken: dict[int, tuple] = {}
        self.poll()
        newest = max({*self.versions, *self.failures}, default=None)  # the folder may have changed since
        if newest is None:
            none = ", where no version holds a SavedModel" if version_numbers(self.folder) else ""
            raise ValueError(
                f"model expected a folder of exported versions (saved_models/NAME with 1/, 2/, ...), "
                f"received {str(folder)!r}{none}."
            )
        if newest in self.failures:
            raise ValueError(self.failures[newest])

    def poll(self) -> list[str]:
        """Load new versions and drop old or deleted ones. Return one sentence per change."""
        numbers, changes = version_numbers(self.folder), []
        wanted = [number for number in numbers if not _of_other_formats(self.folder / str(number))][-self.keep :]
        for number in wanted:
            state = _state(self.folder / str(number))
            if number in self.versions or self._seen_broken.get(number) == state:
                continue
            try:
                version = load_version(self.name, self.folder / str(number), self.batching)
            except ValueError as error:
                self._seen_broken[number] = state  # loaded again when a file changes
                self.failures[number] = str(error)
                changes.append(f"{self.name}: {error}")
            else:
                self._seen_broken.pop(number, None)
                self.versions = {**self.versions, number: version}
                self.failures.pop(
                    number, None
                )  # after `versions`, so that `rest.status` finds the version in one of them
                changes.append(f"{self.name}: version {number} is loaded")
        # An old version is dropped only after `keep` newer ones are loaded, so that one is always available.
        served = [number for number in wanted if number in self.versions]
        if served:
            if len(served) < self.keep:
                older = [number for number in sorted(self.versions) if number not in served]
                older = [number for number in older if (self.folder / str(number)).is_dir()]
                served += older[-(self.keep - len(served)) :]
            dropped = sorted(set(self.versions) - set(served))
            if dropped:
                self.versions = {number: self.versions[number] for number in served}
                changes += [f"{self.name}: version {number} is unloaded" for number in dropped]
                gc.collect()  # a loaded SavedModel contains reference cycles
        return changes

    def version(self, number: int | None = None) -> Version:
        """Return a version, the newest by default, or raise a Refusal with TensorFlow Serving's message."""
        versions = self.versions  # read once, because `poll` replaces the dict
        number = max(versions) if number is None else number
        if number not in versions:
            raise Refusal(404, f"Servable not found for request: Specific({self.name}, {number})")
        return versions[number]


class Repository:
    """All models of a server, and the thread that watches their folders.

    Args:
        folders: folders of the models.
        keep: number of newest versions to serve per model.
        batching: settings of batching.
        poll_seconds: time between two checks of the folders.
        report: a function that is called with each sentence about a change.

    Raises:
        ValueError: a folder holds no version that can be loaded, or two folders have the same name.
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
                except Exception as error:  # such as an unreadable folder; loaded versions stay
                    self._say(f"{model.name}: {type(error).__name__}: {error}")

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed pipe or file, a full disk
            self._report(sentence)

    def model(self, name: str) -> Model:
        """Return a model, or raise a Refusal with TensorFlow Serving's message."""
        if name not in self.models:
            raise Refusal(404, f"Servable not found for request: Latest({name})")
        return self.models[name]


def version_numbers(folder: Path) -> list[int]:
    """Return the numbers of the version folders in a folder, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def load_version(model: str, folder: Path, batching: Batching) -> Version:
    """Load a version and call each signature once to warm it up.

    Raises:
        ValueError: the folder holds no SavedModel, or an incomplete one.
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
    except Exception as error:  # TensorFlow raises many types of errors for a damaged file
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
    """Return whether a version is a complete export without a SavedModel, as of `keras-vit export --formats onnx`."""
    if (folder / "saved_model.pb").is_file():
        return False
    try:
        files = _manifest(folder).get("files")
    except (ValueError, OSError):  # loading the version reports the error
        return False
    return bool(files) and "saved_model.pb" not in files


def _incomplete(folder: Path, manifest: dict) -> str | None:
    """Return what is missing by the manifest, for a version that is still being copied; None if complete."""
    if not (folder / "saved_model.pb").is_file():
        return "no saved_model.pb"
    for name, file in manifest.get("files", {}).items():
        if name != "saved_model.pb" and not name.startswith("variables/"):
            continue  # of another format
        expected, size = file["size"], (folder / name).stat().st_size if (folder / name).is_file() else None
        if size != expected:
            return f"{name} of {'no' if size is None else f'{size:,}'} bytes in place of {expected:,}"
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
    """Return times and sizes of all files in a folder, to detect changes."""
    states = []
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except OSError:
            continue
        states.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(sorted(states))
