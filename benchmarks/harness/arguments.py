"""What the scripts of benchmarks/ take on their command lines: types for argparse, which says their sentence."""

import argparse
import json
from pathlib import Path


def rounds(text: str) -> int:
    """A number of rounds."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an int of at least 1, received {text!r}")
    return int(text)


def seeds(text: str) -> list[int]:
    """Seeds of runs, with commas between them."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ints with commas between them, received {text!r}") from None


def json_with(*names: str):
    """A type: the path of a JSON file, and its object, which has these names."""

    def read(text: str) -> tuple[Path, dict]:
        try:
            found = json.loads(Path(text).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or not found.keys() >= set(names):
            raise argparse.ArgumentTypeError(f"expected a JSON file with {', '.join(names)}, received {text!r}")
        return Path(text), found

    return read
