"""The command `keras-vit VERB ...`. A verb imports Keras only after its options are validated."""

import argparse
import sys

from keras_vit.cli.errors import error_message
from keras_vit.terminal import plain_output

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Print a user error as one sentence.

    Args:
        arguments: the command line without the program's name; `sys.argv` if None.

    Returns:
        The exit status: 0, 2 for a user error, 130 after Ctrl-C, or the verb's own.
    """
    parser = _parser()
    options, options.arguments = parser.parse_known_args(arguments)
    if options.arguments and options.verb != "bench":  # bench parses its own options
        parser.error(f"unrecognized arguments: {' '.join(options.arguments)}")
    with plain_output():
        try:
            return options.run(options) or 0
        except KeyboardInterrupt:
            print(f"keras-vit {options.verb}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            message = error_message(error)
            if message is None:
                raise
            print(f"keras-vit {options.verb}: {message}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    from keras_vit.cli import analyze, bench, check, evaluate, export, list, predict, serve, summary, train, weights

    parser = argparse.ArgumentParser(prog="keras-vit", description="Vision Transformers for Keras.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, run, summary, example, **options):
        """Return the parser of a verb. Each module's `add` calls this function."""
        epilog = f"example: keras-vit {example}"
        sub = verbs.add_parser(name, help=summary, description=summary, epilog=epilog, **options)
        sub.set_defaults(run=run)
        return sub

    for module in (train, evaluate, check, predict, export, serve, analyze, list, summary, weights, bench):
        module.add(verb)
    return parser
