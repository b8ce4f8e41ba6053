"""Packages of the extra `formats`, imported where they are needed."""

import importlib


class NotInstalled(ValueError):
    """A format's package is missing."""


def needed(package: str, module: str, by: str):
    """Import a module of a package that a format needs.

    Args:
        package: its name on the registry.
        module: to import.
        by: the format.

    Raises:
        NotInstalled: the package is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        sentence = f"format {by} expected {package}, which `pip install keras-vit-zoo[formats]` brings."
        raise NotInstalled(sentence) from None
