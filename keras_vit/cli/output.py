"""The output of every verb: its result on the standard output, everything else on the standard error."""

import json
import os
import shlex
import sys
from dataclasses import dataclass

from keras_vit.terminal import NoOutput, paint

CLOSED_PIPE = 1  # exit status


@dataclass(frozen=True)
class Result:
    """The result of a verb.

    Args:
        data: the result as JSON values, which `--json` prints.
        text: the result for people, which is printed otherwise; empty for no output.
        next_command: the next sensible command, as words after `keras-vit`; empty for none.
        status: the exit status.
    """

    data: object
    text: str = ""
    next_command: tuple[str, ...] = ()
    status: int = 0


def add_output_options(sub) -> None:
    """Add `--json` and `--quiet` to a verb's parser."""
    group = sub.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print the result as JSON, one object per line")
    group.add_argument("--quiet", action="store_true", help="print errors only, and the result with --json")


class Output:
    """Print the output of one verb, and redirect what its libraries print inside the `with`.

    With `--json`, `print` of any library writes to the standard error. With `--quiet`, nothing but errors is written.

    Args:
        json: whether to print results as JSON.
        quiet: whether to hide progress, notes and the text of results.
    """

    def __init__(self, json: bool = False, quiet: bool = False):
        self.json, self.quiet = json, quiet
        self._stdout, self._stderr = sys.stdout, sys.stderr

    def __enter__(self):
        if self.quiet:
            sys.stdout = sys.stderr = NoOutput()
        elif self.json:
            sys.stdout = sys.stderr
        return self

    def __exit__(self, *_):
        sys.stdout, sys.stderr = self._stdout, self._stderr

    def line(self, data, text: str, write=None) -> None:
        """Print one part of a result at once.

        Args:
            data: the part as JSON values.
            text: the part for people.
            write: a function (text, stream) that prints a line; by default `print`.
        """
        if self.json:
            text = json.dumps(data, ensure_ascii=False)
        elif self.quiet or not text:
            return
        if write is None:
            print(text, file=self._stdout, flush=True)
        else:
            write(text, self._stdout)
            self._stdout.flush()

    def finish(self, result: Result | int | None) -> int:
        """Print a result and the next command, and return the exit status."""
        if not isinstance(result, Result):
            return result or 0
        if result.data is not None or not self.json:
            self.line(result.data, result.text)
        if result.next_command and not (self.json or self.quiet):
            print(f"next: keras-vit {shlex.join(result.next_command)}", file=self._stderr)
        return result.status

    def error(self, verb: str, message: str) -> None:
        """Print an error as one sentence."""
        print(f"{paint(f'keras-vit {verb}:', 'red', self._stderr)} {message}", file=self._stderr)

    def close_pipe(self) -> int:
        """Stop writing after the reader of the standard output has gone, as `head` does; return the exit status."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout.fileno())  # else Python writes again at exit
        return CLOSED_PIPE
