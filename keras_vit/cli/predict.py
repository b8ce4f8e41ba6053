"""The command `keras-vit predict MODEL IMAGE...`."""

import contextlib
import os
import sys

from keras_vit.cli.options import MODEL_HELP
from keras_vit.terminal import hide_stderr

UNANSWERED, INTERRUPTED = 1, 130
FILE_TYPES = ".csv, .json (one array), .jsonl (one object per line) or .parquet"


def add(verb) -> None:
    """Add the verb and its options to the command line.

    Args:
        verb: a function (name, run, summary, example) that returns the verb's parser.
    """
    sub = verb("predict", run, "Name the classes of image files.", "predict runs/digits photos/ --output results.csv")
    sub.description += (
        " Exit status: 0, all images are classified; 1, some images have an error; 2, wrong arguments; 130, "
        "interrupted."
    )
    sub.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP}, or an export")
    sub.add_argument(
        "images",
        metavar="IMAGE",
        nargs="+",
        help="image files, folders, or - to read names from the standard input",
    )
    sub.add_argument("--top", type=int, default=5, help="number of classes per image (default 5)")
    way = sub.add_mutually_exclusive_group()
    way.add_argument("--json", action="store_true", help="print one JSON object per line")
    way.add_argument(
        "--output",
        metavar="FILE",
        help=f"write {FILE_TYPES} instead of printing; an interrupted run leaves FILE.partial",
    )


def run(options) -> int:
    """Classify the images, print or write the results, and return the exit status."""
    from keras_vit.models.model_names import require_trained
    from keras_vit.predict import load_predictor, predict_each
    from keras_vit.predict.images import image_files
    from keras_vit.predict.predictor import BATCH, interface_of
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.results import Results, as_json, as_line, writer_of

    if options.output:
        writer_of(options.output)  # raises an error before the model is loaded
    require_trained(options.model)
    images = image_files(options.images, sys.stdin.buffer)
    total = len(images) if isinstance(images, list) else None
    with hide_stderr():  # TFLite prints information
        model = load_predictor(options.model)
    rows = predict_each(model, images, options.top)
    top = min(options.top, interface_of(model).classes)
    format_row = as_json if options.json else as_line
    bad, results = 0, Results(options.output, top) if options.output else None
    few = total is not None and total <= BATCH
    with Progress(total, quiet=few) as progress:
        try:
            with results or contextlib.nullcontext():
                for row in rows:
                    bad += row["error"] is not None
                    row["image"] = _printable(row["image"])
                    row["error"] = row["error"] and _printable(row["error"])  # the error names the file
                    if results:
                        results.write(row)
                    else:
                        progress.print(format_row(row))
                    progress.add()
        except KeyboardInterrupt:
            _print_interrupted(results, progress)
            return INTERRUPTED
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python writes again at exit
            return UNANSWERED
    if results:
        print(f"wrote {options.output}: {progress.done:,} images, {bad:,} of them with an error")
    return UNANSWERED if bad else 0


def _printable(text: str) -> str:
    """Return a text with the bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _print_interrupted(results, progress) -> None:
    written = ""
    if results and results.rows:
        written = f"; their results are in {results.partial}"
    print(f"keras-vit predict: interrupted after {progress.done:,} images{written}", file=sys.stderr)
