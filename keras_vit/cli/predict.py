"""The command `keras-vit predict MODEL IMAGE...`."""

import contextlib
import os
import sys

from keras_vit.cli.options import MODEL_HELP
from keras_vit.terminal import hide_stderr

SOME_FAILED, INTERRUPTED = 1, 130  # exit statuses
FILE_TYPES = ".csv, .json (one array), .jsonl (one object per line) or .parquet"


def add(verb) -> None:
    """Add the verb and its options to the command line."""
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
    output_group = sub.add_mutually_exclusive_group()
    output_group.add_argument("--json", action="store_true", help="print one JSON object per line")
    output_group.add_argument(
        "--output",
        metavar="FILE",
        help=f"write {FILE_TYPES} instead of printing; an interrupted run leaves FILE.partial",
    )


def run(options) -> int:
    """Classify the images, print or write the results, and return the exit status."""
    from keras_vit.models.model_names import require_trained
    from keras_vit.predict import load_predictor, predict_each
    from keras_vit.predict.images import image_files
    from keras_vit.predict.predictor import BATCH_SIZE, interface_of
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.results import ResultsFile, as_json, as_text, writer_class

    if options.output:
        writer_class(options.output)  # raises an error before the model is loaded
    require_trained(options.model)
    images = image_files(options.images, sys.stdin.buffer)
    total = len(images) if isinstance(images, list) else None
    with hide_stderr():  # TFLite prints information
        model = load_predictor(options.model)
    results = predict_each(model, images, options.top)
    top = min(options.top, interface_of(model).classes)
    format_result = as_json if options.json else as_text
    failed, file = 0, ResultsFile(options.output, top) if options.output else None
    with Progress(total, quiet=total is not None and total <= BATCH_SIZE) as progress:
        try:
            with file or contextlib.nullcontext():
                for result in results:
                    failed += result["error"] is not None
                    result["image"] = _printable(result["image"])
                    result["error"] = result["error"] and _printable(result["error"])  # the error names the file
                    if file:
                        file.write(result)
                    else:
                        progress.print(format_result(result))
                    progress.add()
        except KeyboardInterrupt:
            _print_interrupted(file, progress)
            return INTERRUPTED
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python writes again at exit
            return SOME_FAILED
    if file:
        print(f"wrote {options.output}: {progress.done:,} images, {failed:,} with an error")
    return SOME_FAILED if failed else 0


def _printable(text: str) -> str:
    """Return a text with the bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _print_interrupted(file, progress) -> None:
    written = ""
    if file and file.count:
        written = f"; their results are in {file.partial}"
    print(f"keras-vit predict: interrupted after {progress.done:,} images{written}", file=sys.stderr)
