"""The argument parsers of the command line, with help texts that Sphinx reads as plain text."""

import argparse
import re

from keras_vit import cli


def parser() -> argparse.ArgumentParser:
    """Return the parser of `keras-vit`, with markup characters in its help texts escaped."""
    whole = cli.command_parser()
    _escape(whole)
    return whole


def _escape(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _plain(parser.description), _example(parser.epilog)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                choice.help = _plain(choice.help)
            for sub in action.choices.values():
                _escape(sub)
        elif action.help is not argparse.SUPPRESS:
            action.help = _plain(action.help)


def _plain(text: str | None) -> str | None:
    return text and re.sub(r"([*`|_\\])", r"\\\1", text)


def _example(text: str | None) -> str | None:
    """Return an epilog `example: COMMAND` with its command as code."""
    title, colon, command = (text or "").partition(": ")
    return f"{title.capitalize()}: ``{command}``" if colon else _plain(text)
