"""Vision Transformers for Keras, numerically equal to the official code."""

import os as _os
import platform as _platform
import typing as _typing

from keras_vit import terminal as _terminal

if _platform.machine() in ("x86_64", "AMD64"):
    # TensorFlow has oneDNN's products behind this switch where the processor ends with AVX2: 1.1 to 1.5 times the speed
    # there (benchmarks/notes). It is read once, when TensorFlow is imported.
    _os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

if _typing.TYPE_CHECKING or not _terminal.COMMAND:
    # The layers are registered with Keras from here on, so that `keras.saving.load_model` finds them.
    from keras_vit.public import *  # noqa: F403

__version__ = "0.1.0"

if not _typing.TYPE_CHECKING:  # otherwise every name would seem to exist

    def __getattr__(name: str):
        """Import a public name or a room on first use in the command `keras-vit`, which starts without Keras."""
        if _terminal.COMMAND and not name.startswith("_"):
            import importlib.util

            if importlib.util.find_spec(f"{__name__}.{name}") is not None:
                return importlib.import_module(f"{__name__}.{name}")
            public = importlib.import_module(f"{__name__}.public")
            if name in vars(public):
                return getattr(public, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
