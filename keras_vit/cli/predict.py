"""The command `keras-vit predict MODEL IMAGE...`."""

import contextlib
import sys
from pathlib import Path

from keras_vit.cli.options import MODEL_HELP, short_name
from keras_vit.cli.output import Result
from keras_vit.terminal import hide_stderr

SOME_FAILED, INTERRUPTED = 1, 130  # exit statuses
UNNAMED = (
    "the file has no class names, so the classes are numbered from 0; if they are ImageNet-1k's, --labels imagenet "
    "names them"
)
FILE_TYPES = ".csv, .json (one array), .jsonl (one object per line) or .parquet"


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "predict",
        run,
        "Name the classes of image files, or predict the values of a regression.",
        "predict runs/digits photos/ --output results.csv",
    )
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
    sub.add_argument(
        "--labels",
        help="names of the classes of a file that has none: imagenet, or a text file with one name per line",
    )
    sub.add_argument(
        "--output",
        metavar="FILE",
        help=f"write {FILE_TYPES} instead of printing; an interrupted run leaves FILE.partial",
    )


def run(options) -> Result | int:
    """Classify the images, and print or write the results."""
    from tqdm import tqdm

    from keras_vit.models.model_names import require_trained
    from keras_vit.predict import load_predictor, predict_each
    from keras_vit.predict.images import image_files
    from keras_vit.predict.predictor import BATCH_SIZE, interface_of
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.results import ResultsFile, as_text, writer_class

    if options.output:
        writer_class(options.output)  # raises an error before the model is loaded
    labels = _labels(options.labels)
    require_trained(options.model)
    images = image_files(options.images, sys.stdin.buffer)
    total = len(images) if isinstance(images, list) else None
    with hide_stderr():  # TFLite prints information
        model = load_predictor(options.model)
    results = predict_each(model, images, options.top, labels)
    interface = interface_of(model)
    if labels is None and interface.labels == tuple(map(str, range(1000))):
        print(f"keras-vit predict: {UNNAMED}", file=sys.stderr)
    top = interface.targets  # the columns of a file
    if not top:
        top = interface.classes if interface.thresholds else min(options.top, interface.classes)
    above_bar = lambda text, stream: tqdm.write(text, file=stream)  # noqa: E731
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
                        options.printer.line(result, as_text(result), above_bar)
                    progress.add()
        except KeyboardInterrupt:
            options.printer.error("predict", _interrupted(file, progress))
            return INTERRUPTED
    counts = {"output": options.output, "images": progress.done, "errors": failed} if file else None
    text = f"wrote {options.output}: {progress.done:,} images, {failed:,} with an error" if file else ""
    return Result(counts, text, _next_command(options.model), SOME_FAILED if failed else 0)


def _next_command(model: str) -> tuple[str, ...]:
    from keras_vit.exported.folders import formats_in, version_folder

    path = Path(model)
    version = version_folder(path.parent if path.is_file() else path)
    if version is None:
        return ("export", model, "--output", f"saved_models/{short_name(model)}")
    return ("serve", str(version.parent)) if "saved_model" in formats_in(version) else ()


def _labels(source: str | None) -> list[str] | None:
    """Return the class names that `--labels` names.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    if source is None:
        return None
    if source == "imagenet":
        from keras_vit.preprocessing.inputs import imagenet_classes

        return [name for _, name in imagenet_classes()]
    if not Path(source).is_file():
        raise FileNotFoundError(f"--labels expected imagenet, or a file with a name per line, received {source!r}.")
    return Path(source).read_text(encoding="utf-8").splitlines()


def _printable(text: str) -> str:
    """Return a text with the bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _interrupted(file, progress) -> str:
    written = ""
    if file and file.count:
        written = f"; their results are in {file.partial}"
    return f"interrupted after {progress.done:,} images{written}"
