"""The command `keras-vit summary MODEL`. `cost/summary.py` counts."""

import argparse
import re

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width

JFT_IMAGES = 303e6  # copied from cost/budget.py, so that --help imports no Keras
DATASETS = (  # copied from cost/published.py
    "imagenet",
    "real",
    "cifar10",
    "cifar100",
    "pets",
    "flowers",
)


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "summary", run, "Count a model's parameters, multiply-adds and memory.", "summary ViT_L16 --image-size 384"
    )
    sub.add_argument("model", metavar="MODEL", help="a model's name, a workdir, a .keras file or published weights")
    sub.add_argument("--image-size", type=_sides, metavar="PIXELS", help="384 or HEIGHTxWIDTH; replaces the model's")
    sub.add_argument("--batch", type=int, default=32, help="training batch size per device (default 32)")
    sub.add_argument("--optimizer", default="adamw", help="adamw, sgd, lamb, adafactor or muon (default adamw)")
    sub.add_argument("--precision", default="float32", help="dtype policy: float32, mixed_bfloat16 or mixed_float16")
    sub.add_argument("--epochs", type=float, help="also count a pre-training of this many epochs")
    sub.add_argument("--images", type=float, default=JFT_IMAGES, help="images per epoch (default 303e6, JFT-300M)")
    sub.add_argument("--peak", type=float, metavar="TFLOPS", help="peak speed of a device, to compute device-days")
    sub.add_argument("--utilisation", type=float, default=0.4, help="fraction of the peak speed (default 0.4)")
    sub.add_argument("--plot", metavar="PNG", help="draw the paper's figure 5, with this model if --accuracy is given")
    sub.add_argument("--accuracy", action="append", default=[], metavar="DATA=PERCENT", type=_score,
                     help="accuracy on imagenet, real, cifar10, cifar100, pets or flowers, for --plot")  # fmt: skip


def run(options) -> Result:
    """Count and return the report."""
    from keras_vit.cost.summary import run_summary

    summary = run_summary(options)
    table = table_lines(summary.table, {2, 3, 4}, terminal_width(), wrapped=0)
    text = "\n".join([*summary.above, *table, *summary.below])
    return Result(summary.report, text, ("new", "recipe.py", "--model", options.model) if summary.is_named else ())


def _sides(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected 384 or HEIGHTxWIDTH, received {text!r}")
    return int(match[1]), int(match[2] or match[1])


def _score(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if name in DATASETS and equals:
            return name, float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected DATA=PERCENT with one of {', '.join(DATASETS)}, received {text!r}")
