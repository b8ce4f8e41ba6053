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
        raise NotInstalled(not_installed(by, package)) from None


def not_installed(by: str, package: str) -> str:
    """Return the sentence about a package that a format needs and does not find."""
    return f"format {by} expected the package {package}, found none: pip install 'keras-vit-zoo[formats]'."
