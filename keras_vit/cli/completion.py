"""The command `keras-vit completion SHELL`. shtab writes the script from the parsers of all verbs."""

import argparse

from keras_vit.cli.output import Result

SHELLS = ("bash", "zsh", "fish")
EXAMPLE = "completion bash > ~/.local/share/bash-completion/completions/keras-vit"
# Destinations of the options and arguments that are files or folders.
_PATHS = {"model", "models", "images", "recipe", "file", "folder", "data", "data_dir", "workdir", "output"}
_PATHS |= {"calibration", "source", "target", "to", "index", "plot"}
_complete_path = {}  # shell -> function that completes a path; filled from shtab when a script is written


class CommandParser(argparse.ArgumentParser):
    """A parser whose options and arguments for paths have the attribute `complete` that shtab reads."""

    def add_argument(self, *names, **options) -> argparse.Action:
        """Add an option or argument, as in `argparse`."""
        action = super().add_argument(*names, **options)
        if action.dest in _PATHS:
            action.complete = _complete_path
        return action


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("completion", run, "Print a script that completes verbs, options and files in a shell.", EXAMPLE)
    sub.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(options) -> Result:
    """Return the script, which is static: completion starts no Python.

    Raises:
        ImportError: shtab is not installed.
    """
    from keras_vit.cli import command_parser

    try:
        import shtab
    except ImportError:
        raise ImportError("completion expected shtab, found none: pip install 'keras-vit-zoo[completion]'.") from None
    _complete_path.update(shtab.FILE)
    script = shtab.complete(command_parser(), options.shell)
    return Result({"shell": options.shell, "script": script}, script.rstrip("\n"))
