"""`keras-vit VERB ...`: parse, call, print. A verb imports Keras once its options are known to be right."""

import argparse
import sys

from keras_vit.cli.mistakes import sentence_of
from keras_vit.terminal import own_lines

INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a user's mistake is printed as one sentence.

    Returns:
        The exit code: 0, 2 for a mistake in the arguments, 130 after Ctrl-C, or the verb's own.
    """
    parser = _parser()
    options, options.arguments = parser.parse_known_args(arguments)
    if options.arguments and options.verb != "bench":  # which parses them itself
        parser.error(f"unrecognized arguments: {' '.join(options.arguments)}")
    with own_lines():
        try:
            return options.run(options) or 0
        except KeyboardInterrupt:
            print(f"keras-vit {options.verb}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            sentence = sentence_of(error)
            if sentence is None:
                raise
            print(f"keras-vit {options.verb}: {sentence}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    from keras_vit.cli import analyze, bench, check, evaluate, export, list, predict, serve, summary, train, weights

    parser = argparse.ArgumentParser(prog="keras-vit", description="Vision Transformers for Keras.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, run, summary, example, **options):
        epilog = f"example: keras-vit {example}"
        sub = verbs.add_parser(name, help=summary, description=summary, epilog=epilog, **options)
        sub.set_defaults(run=run)
        return sub

    for module in (train, evaluate, check, predict, export, serve, analyze, list, summary, weights, bench):
        module.add(verb)
    return parser
