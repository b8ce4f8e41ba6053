"""Control the output of the command `keras-vit`: print its own lines, and hide TensorFlow's.

`import keras_vit` in Python does not use this file.
"""

import atexit
import contextlib
import gc
import importlib.abc
import importlib.util
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path


def _is_command() -> bool:
    """Return whether this process is `keras-vit ...` or `python -m keras_vit.cli ...`."""
    as_module = sys.argv[:1] == ["-m"] and "keras_vit.cli" in sys.orig_argv  # `-m` while Python imports the package
    return as_module or Path(*sys.argv[:1]).name in ("keras-vit", "keras-vit.exe")


COMMAND = _is_command()  # if True, `import keras_vit` does not import Keras: each verb imports what it needs
_COLOURS = {"red": 31, "green": 32, "yellow": 33}  # of ANSI's escape sequences


@contextlib.contextmanager
def plain_output():
    """Print warnings as sentences, and hide the output of importing Keras and TensorFlow, inside the `with`.

    `TF_CPP_MIN_LOG_LEVEL=0` shows TensorFlow's output. Other values do not, because `import tensorflow` sets 1 for all
    processes that a notebook starts.
    """
    show, warnings.showwarning = warnings.showwarning, _show_sentence
    start = _SilentImport()
    if COMMAND:
        # Skips Python's garbage collection at exit, which takes seconds with TensorFlow.
        atexit.register(gc.freeze)
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0":
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # fatal errors are still shown
            sys.meta_path.insert(0, start)
    try:
        yield
    finally:
        warnings.showwarning = show
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(start)


@contextlib.contextmanager
def hide_stderr(expected: tuple = ()):
    """Hide the output of C++ libraries on the standard error inside the `with`; show Python's.

    C++ libraries write to the file descriptor, so the descriptor is redirected to a temporary file.

    Args:
        expected: exceptions that need no explanation. After any other exception the hidden output is printed.
    """
    before = sys.stderr
    before.flush()
    with tempfile.TemporaryFile() as hidden, os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace") as shown:
        os.dup2(hidden.fileno(), 2)
        if not isinstance(before, NoOutput):
            sys.stderr = shown
        try:
            yield
        except expected:
            raise
        except Exception:
            hidden.seek(0)
            shown.write(hidden.read().decode(errors="backslashreplace"))
            raise
        finally:
            shown.flush()
            os.dup2(shown.fileno(), 2)
            sys.stderr = before


class _SilentImport(importlib.abc.MetaPathFinder):
    """Import hook that hides the output of importing Keras and TensorFlow."""

    def __init__(self):
        self._found = set()

    def find_spec(self, name, path=None, target=None):
        """Return the module spec of `keras` or `tensorflow`; None for all other modules."""
        if name not in ("keras", "tensorflow") or name in self._found:
            return None
        self._found.add(name)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = hide_stderr()(execute)
        return spec


class NoOutput(io.TextIOBase):
    """A stream that drops what is written."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)


def on_terminal(stream) -> bool:
    """Return whether a stream is a terminal."""
    return bool(getattr(stream, "isatty", lambda: False)())


def paint(text: str, colour: str, stream) -> str:
    """Return a text in `red`, `yellow` or `green` if the stream is a terminal that shows colours.

    `NO_COLOR` turns colours off (no-color.org).
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not on_terminal(stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _show_sentence(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as a line of the command, without Python's path and source line."""
    stream = file or sys.stderr
    print(f"{paint('keras-vit:', 'yellow', stream)} {' '.join(str(message).split())}", file=stream)
