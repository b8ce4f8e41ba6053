"""Cache computed arrays on disk, by everything that they depend on."""

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
    """Return the SHA-256 of a model's layer configs and weights. Equal hashes mean equal outputs."""
    digest = hashlib.sha256()
    for layer in model.layers:
        config = {name: value for name, value in layer.get_config().items() if name not in ("labels", "trainable")}
        digest.update(json.dumps([type(layer).__name__, config], sort_keys=True, default=str).encode())
    for variable in model.weights:
        array = np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).reshape(-1)
        digest.update(f"{variable.shape} {variable.dtype}".encode())
        digest.update(array.view("uint8").data)
    return digest.hexdigest()


def cached_arrays(
    folder: str | os.PathLike | None,
    key: dict,
    compute: Callable[[], dict[str, np.ndarray]],
    note: Callable[[str], None] | None = None,
) -> dict[str, np.ndarray]:
    """Return the cached result of `compute()`, computing it on the first call.

    A file that cannot be read, or has another key, is replaced with a note. Files are written atomically.

    Args:
        folder: folder of the cache; None computes without a cache.
        key: everything that the arrays depend on, as JSON values.
        compute: a function that returns arrays by name.
        note: receives a message about an unusable file; None prints it to the standard error.
    """
    if folder is None:
        return compute()
    text = json.dumps(key, sort_keys=True)
    path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"
    if path.is_file():
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if str(arrays.pop("key")) == text:
                return arrays
            reason = "it has another key"
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
        note = note or (lambda line: print(line, file=sys.stderr))
        note(f"{path} cannot be used and is computed again: {reason}")
    arrays = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{os.getpid()}-{path.name}")
    try:
        np.savez(partial, key=np.array(text), **arrays)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)  # a full disk needs its space back
        raise
    return arrays
