"""Arrays that took long to compute, kept on disk under what they were computed from."""

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np


def fingerprint(model: keras.Model) -> str:
    """SHA-256 of what a model computes: its layers' configurations, and its weights to the last bit."""
    found = hashlib.sha256()
    for layer in model.layers:
        config = {name: value for name, value in layer.get_config().items() if name not in ("labels", "trainable")}
        found.update(json.dumps([type(layer).__name__, config], sort_keys=True, default=str).encode())
    for variable in model.weights:
        array = np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).reshape(-1)
        found.update(f"{variable.shape} {variable.dtype}".encode())
        found.update(array.view("uint8").data)
    return found.hexdigest()


def kept(
    folder: str | os.PathLike | None,
    key: dict,
    compute: Callable[[], dict[str, np.ndarray]],
    note: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """What `compute` gives, from disk where it is there for the same key.

    A file that cannot be read, or holds another key, is computed anew with a note. Files are written beside their
    place and then moved there, so that a process that is killed leaves none half written under its name.

    Args:
        folder: of the files; None keeps nothing.
        key: all that the arrays hang on; its JSON is hashed.
        compute: gives arrays by name.
        note: takes a line for people; printed to the standard error where None.
    """
    if folder is None:
        return compute()
    text = json.dumps(key, sort_keys=True)
    path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"
    if path.is_file():
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            if str(found.pop("key")) == text:
                return found
            reason = "it is of another key"
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
        say = note or (lambda line: print(line, file=sys.stderr))
        say(f"{path} is computed anew, for it cannot be used: {reason}")
    found = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"partial-{os.getpid()}-{path.name}")
    try:
        np.savez(beside, key=np.array(text), **found)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)  # a full disk needs its space back
        raise
    return found
