"""`keras-vit predict`: options, rows as they come, and an exit status that says whether every file had an answer."""

import contextlib
import os
import sys

from keras_vit.cli.options import MODEL_HELP
from keras_vit.terminal import held_back

UNANSWERED, INTERRUPTED = 1, 130
FORMS = ".csv, .json (one array), .jsonl (one object a line) or .parquet"


def add(verb) -> None:
    """Add the verb and its options to the command line.

    Args:
        verb: (name, run, summary, example) -> the verb's parser.
    """
    sub = verb("predict", run, "Name the classes of image files.", "predict runs/digits photos/ --output results.csv")
    sub.description += (
        " Exit status: 0, every image has its classes; 1, some have an error in their place; 2, a mistake in what was "
        "asked; 130, interrupted."
    )
    sub.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP}, or an export")
    sub.add_argument(
        "images", metavar="IMAGE", nargs="+", help="image files, folders of them, or - for names on the standard input"
    )
    sub.add_argument("--top", type=int, default=5, help="how many classes to name (default 5)")
    way = sub.add_mutually_exclusive_group()
    way.add_argument("--json", action="store_true", help="print one JSON object a line")
    way.add_argument(
        "--output",
        metavar="FILE",
        help=f"write {FORMS} instead of printing; complete or absent, an interrupted run leaves FILE.partial",
    )


def run(options) -> int:
    """Predict and print or write the rows; the exit status."""
    from keras_vit.models.source import require_trained
    from keras_vit.predict import load_predictor, predict_each
    from keras_vit.predict.images import image_files
    from keras_vit.predict.predictor import BATCH, interface_of
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.results import Results, as_json, as_line, writer_of

    if options.output:
        writer_of(options.output)  # raises now rather than after the model is loaded
    require_trained(options.model)
    images = image_files(options.images, sys.stdin.buffer)
    total = len(images) if isinstance(images, list) else None
    with held_back():  # TFLite says how it computes
        model = load_predictor(options.model)
    rows = predict_each(model, images, options.top)
    top = min(options.top, interface_of(model).classes)
    say = as_json if options.json else as_line
    bad, results = 0, Results(options.output, top) if options.output else None
    few = total is not None and total <= BATCH
    with Progress(total, quiet=few) as progress:
        try:
            with results or contextlib.nullcontext():
                for row in rows:
                    bad += row["error"] is not None
                    row["image"] = _printable(row["image"])
                    row["error"] = row["error"] and _printable(row["error"])  # it names the file, too
                    if results:
                        results.write(row)
                    else:
                        progress.print(say(row))
                    progress.add()
        except KeyboardInterrupt:
            _say_kept(results, progress)
            return INTERRUPTED
        except BrokenPipeError:  # whoever reads has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try once more at exit
            return UNANSWERED
    if results:
        print(f"wrote {options.output}: {progress.done:,} images, {bad:,} of them with an error")
    return UNANSWERED if bad else 0


def _printable(text: str) -> str:
    """A text in which a name's bytes that are no UTF-8 stand as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _say_kept(results, progress) -> None:
    kept = ""
    if results and results.rows:
        kept = f"; their rows are in {results.partial}"
    print(f"keras-vit predict: interrupted after {progress.done:,} images{kept}", file=sys.stderr)
