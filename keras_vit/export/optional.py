"""Import the packages of the extra `formats` when a format needs them."""

import importlib


class NotInstalled(ValueError):
    """Raised if the package of a format is not installed."""


def needed(package: str, module: str, by: str):
    """Import and return a module that a format needs.

    Args:
        package: name of the package for pip.
        module: name of the module.
        by: name of the format.

    Raises:
        NotInstalled: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        sentence = f"format {by} expected {package}, which `pip install keras-vit-zoo[formats]` brings."
        raise NotInstalled(sentence) from None
