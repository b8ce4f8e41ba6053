"""The command `keras-vit bench`, which needs a clone of the repository."""

import importlib.util
import sys
from pathlib import Path

CLONE = Path(__file__).parents[2]


def add(verb) -> None:
    """Add the verb to the command line; the benchmark parses its own options."""
    summary = "Compare speed and memory with keras-hub, timm and transformers. Needs a clone of the repository."
    verb("bench", run, summary, "bench --quick", has_result=False, add_help=False)


def run(options) -> int:
    """Run the benchmark with the remaining arguments and return its exit status.

    Raises:
        ValueError: the package was installed without the repository.
    """
    if not (CLONE / "benchmarks" / "harness").is_dir():
        raise ValueError(
            f"bench expected a clone of the keras_vit repository, received a package in {str(CLONE)!r} without its "
            "folder benchmarks/harness: clone the repository and install it with `pip install -e .`."
        )
    if importlib.util.find_spec("benchmarks") is None or str(CLONE) not in sys.path:
        sys.path.insert(0, str(CLONE))
    from benchmarks.harness.verb import main

    return main(options.arguments)
