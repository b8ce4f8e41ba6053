"""`keras-vit summary MODEL`: options, a call. The counting is `analysis/summary.py`'s, which needs Keras."""

import argparse
import re

JFT_IMAGES = 303e6  # analysis.budget's, written again so that --help needs no Keras
SCORES = (  # published(6)'s
    "imagenet",
    "real",
    "cifar10",
    "cifar100",
    "pets",
    "flowers",
)


def add(verb) -> None:
    """Add the verb and its options to the command line.

    Args:
        verb: (name, run, summary, example) -> the verb's parser.
    """
    sub = verb("summary", run, "Count what a model takes, from its shapes.", "summary ViT_L16 --image-size 384")
    sub.add_argument("model", metavar="MODEL", help="a model's name, a workdir, a .keras file or published weights")
    sub.add_argument("--image-size", type=_sides, metavar="PIXELS", help="384 or HEIGHTxWIDTH, in place of its own")
    sub.add_argument("--batch", type=int, default=32, help="images on a device while training (default 32)")
    sub.add_argument("--optimizer", default="adamw", help="adamw, sgd, lamb, adafactor or muon (default adamw)")
    sub.add_argument("--precision", default="float32", help="float32, mixed_bfloat16 or mixed_float16, of activations")
    sub.add_argument("--epochs", type=float, help="count a pre-training of so many epochs, too")
    sub.add_argument("--images", type=float, default=JFT_IMAGES, help="of an epoch (default 303e6, JFT-300M's)")
    sub.add_argument("--peak", type=float, metavar="TFLOPS", help="of a device, for the days that it takes")
    sub.add_argument("--utilisation", type=float, default=0.4, help="share of the peak reached (default 0.4)")
    sub.add_argument("--plot", metavar="PNG", help="draw the paper's figure 5, this model in it where --accuracy is")
    sub.add_argument("--accuracy", action="append", default=[], metavar="DATA=PERCENT", type=_score,
                     help="of imagenet, real, cifar10, cifar100, pets or flowers, for --plot")  # fmt: skip
    sub.add_argument("--json", action="store_true", help="one JSON object")


def run(options) -> None:
    """Count and print."""
    from keras_vit.cost.summary import run_summary

    run_summary(options)


def _sides(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected 384 or HEIGHTxWIDTH, received {text!r}")
    return int(found[1]), int(found[2] or found[1])


def _score(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if name in SCORES and equals:
            return name, float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected DATA=PERCENT with one of {', '.join(SCORES)}, received {text!r}")
