"""Packages of the extra `formats`, imported where they are needed."""

import importlib


def needed(package: str, module: str, by: str):
    """Import a module of a package that a format needs.

    Args:
        package: its name on the registry.
        module: to import.
        by: the format.

    Raises:
        ValueError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(f"format {by} expected {package}, which `pip install keras_vit[formats]` brings.") from None
