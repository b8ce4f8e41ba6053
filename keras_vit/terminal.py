"""What the command `keras-vit` shows: its own lines, and nothing that TensorFlow says of itself.

None of this is done for those who `import keras_vit` in Python.
"""

import atexit
import contextlib
import gc
import importlib.abc
import importlib.util
import os
import sys
import tempfile
import warnings
from pathlib import Path


def _is_command() -> bool:
    """Whether this process was started as `keras-vit ...` or as `python -m keras_vit.cli ...`."""
    as_module = sys.argv[:1] == ["-m"] and "keras_vit.cli" in sys.orig_argv  # `-m` stands there while a package loads
    return as_module or Path(*sys.argv[:1]).name in ("keras-vit", "keras-vit.exe")


COMMAND = _is_command()  # then `import keras_vit` brings no Keras: each verb imports what it needs


@contextlib.contextmanager
def own_lines():
    """While entered, warnings are sentences, and Keras and TensorFlow are imported in silence.

    A user who sets `TF_CPP_MIN_LOG_LEVEL` sees what TensorFlow says.
    """
    show, warnings.showwarning = warnings.showwarning, _show_sentence
    start = _SilentImport()
    if COMMAND:
        # Python ends with a search of all objects for garbage, which takes 3 s of TensorFlow's.
        atexit.register(gc.freeze)
        if "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # what ends the process is still shown
            sys.meta_path.insert(0, start)
    try:
        yield
    finally:
        warnings.showwarning = show
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(start)


@contextlib.contextmanager
def held_back(expected: tuple = ()):
    """Hold back what libraries write to the standard error while entered; Python's own lines are shown.

    They write to the file descriptor by themselves, so that this is what is held.

    Args:
        expected: exceptions that say enough by themselves; of any other one the lines are shown, too.
    """
    before = sys.stderr
    before.flush()
    with tempfile.TemporaryFile() as kept, os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace") as shown:
        os.dup2(kept.fileno(), 2)
        sys.stderr = shown
        try:
            yield
        except expected:
            raise
        except Exception:
            kept.seek(0)
            shown.write(kept.read().decode(errors="backslashreplace"))
            raise
        finally:
            shown.flush()
            os.dup2(shown.fileno(), 2)
            sys.stderr = before


class _SilentImport(importlib.abc.MetaPathFinder):
    """Finds Keras and TensorFlow as Python does, and holds back what their imports say."""

    def __init__(self):
        self._found = set()

    def find_spec(self, name, path=None, target=None):
        """Return the specification of `keras` or `tensorflow`; None, for the next finder, of all else."""
        if name not in ("keras", "tensorflow") or name in self._found:
            return None
        self._found.add(name)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = held_back()(execute)
        return spec


def _show_sentence(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as the command's own line, in place of Python's with a path and a line of code."""
    print(f"keras-vit: {' '.join(str(message).split())}", file=file or sys.stderr)
