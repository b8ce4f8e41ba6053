"""The command `keras-vit VERB ...`. A verb imports Keras only after its options are validated."""

import argparse
from importlib import import_module

from keras_vit.cli.completion import CommandParser
from keras_vit.cli.errors import error_message
from keras_vit.cli.output import Output, add_output_options
from keras_vit.terminal import plain_output

# One module each, in the order of `keras-vit --help`.
VERBS = (
    "finetune",
    "new",
    "train",
    "find-rate",
    "sweep",
    "cross-validate",
    "evaluate",
    "compare",
    "check",
    "predict",
    "export",
    "serve",
    "analyze",
    "list",
    "summary",
    "weights",
)
VERBS += ("doctor", "completion", "bench")
INTERRUPTED = 130  # 128 + SIGINT, as in shells


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Print a user error as one sentence.

    Args:
        arguments: the command line without the program's name; `sys.argv` if None.

    Returns:
        The exit status: 0, 2 for a user error, 130 after Ctrl-C, or the verb's own.
    """
    parser = command_parser()
    options, options.arguments = parser.parse_known_args(arguments)
    if options.arguments and options.verb != "bench":  # bench parses its own options
        parser.error(f"unrecognized arguments: {' '.join(options.arguments)}")
    options.printer = output = Output(getattr(options, "json", False), getattr(options, "quiet", False))
    with plain_output(), output:
        try:
            return output.finish(options.run(options))
        except KeyboardInterrupt:
            output.error(options.verb, "interrupted")
            return INTERRUPTED
        except BrokenPipeError:
            return output.close_pipe()
        except Exception as error:
            message = error_message(error)
            if message is None:
                raise
            output.error(options.verb, message)
            return 2


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    parser = CommandParser(prog="keras-vit", description="Vision Transformers for Keras.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, run, summary, example, has_result=True, **options):
        """Return the parser of a verb. Each module's `add` calls this function.

        `has_result` adds `--json` and `--quiet`.
        """
        epilog = f"example: keras-vit {example}"
        sub = verbs.add_parser(name, help=summary, description=summary, epilog=epilog, **options)
        sub.set_defaults(run=run)
        if has_result:
            add_output_options(sub)
        return sub

    for name in VERBS:
        import_module(f"keras_vit.cli.{name.replace('-', '_')}").add(verb)
    return parser
