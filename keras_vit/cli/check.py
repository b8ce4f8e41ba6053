"""The command `keras-vit check FOLDER`."""

import sys

from keras_vit.cli.output import Result
from keras_vit.terminal import hide_stderr, paint

NEEDS_CARE = 1  # exit status
MAX_LISTED = 5  # files per finding


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "check", run, "Read every image of a folder or a table once, and list the files that need care.", "check photos"
    )
    sub.description += (
        " Exit status: 0, nothing needs care; 1, there are broken files, duplicates across splits or classes, or "
        "classes with no or few images; 2, wrong arguments. Unusual files and duplicates within a class are only "
        "listed."
    )
    sub.add_argument(
        "folder",
        metavar="FOLDER",
        help="CLASS/*.jpg, or train/CLASS/*.jpg and test/CLASS/*.jpg, or a CSV file with a column path",
    )


def run(options) -> Result:
    """Check the files and return the findings."""
    from keras_vit.data.check import check_files, files_to_check, findings
    from keras_vit.predict.progress import Progress

    files, empty = files_to_check(options.folder)
    with hide_stderr(Exception), Progress(len(files), unit="files") as progress:  # the decoders print, too
        facts = [fact for fact in check_files(files) if progress.add()]
    report = findings(facts, empty)
    needs_care = report["needs_care"]
    following = ("check", options.folder) if needs_care else ("new", "recipe.py", "--data", options.folder)
    text = "\n".join(_lines(options.folder, report))
    return Result(report, text, following, NEEDS_CARE if needs_care else 0)


def _lines(folder, report):
    counts = ", ".join(f"{split} {sum(classes.values()):,}" for split, classes in report["splits"].items())
    classes = {label for classes in report["splits"].values() for label in classes} - {""}
    of_classes = f" of {len(classes):,} classes" if classes else ""
    yield f"{folder}: {report['files']:,} files{of_classes} ({counts})"
    for title, lines in (
        ("broken", [f"{row['file']}: {row['reason']}" for row in report["broken"]]),
        ("the same content in two splits or classes", [" = ".join(files) for files in report["duplicates_across"]]),
        ("classes without images", [f"{row['split']}/{row['class']}" for row in report["empty_classes"]]),
        ("classes with few images to train on", [f"{row['class']}: {row['files']}" for row in report["tiny_classes"]]),
        ("the same content within a class", [" = ".join(files) for files in report["duplicates_within"]]),
    ):
        yield from _listed(title, lines)
    for oddity, files in report["odd"].items():
        yield from _listed(oddity, files)
    needs_care = report["needs_care"]
    words, colour = ("something needs care", "yellow") if needs_care else ("nothing needs care", "green")
    yield paint(words, colour, sys.stdout)


def _listed(title, lines):
    if lines:
        yield f"{title}: {len(lines):,}"
        yield from (f"  {line}" for line in lines[:MAX_LISTED])
        if len(lines) > MAX_LISTED:
            yield f"  and {len(lines) - MAX_LISTED:,} more (--json lists all)"
