"""The figures of the pages about evaluation and labels, and of the catalogue, each with its source or a reason."""

import csv

from docs.figures import Claim
from docs.sources import bound
from support import ROOT


def listed() -> tuple:
    from keras_vit.evaluate.mistakes import MOST

    return (MOST,)


def thumbnails() -> tuple:
    from keras_vit.data.near_duplicates import ALIKE, SIDE

    return SIDE, SIDE, ALIKE


def bins() -> tuple:
    from keras_vit.evaluate.calibration import BINS

    return (BINS,)


def exact() -> tuple:
    from keras_vit.evaluate.agreement import EXACT

    return (EXACT,)


def betas() -> tuple:
    from keras_vit.evaluate.losses import BETAS

    return BETAS["soft"], BETAS["hard"]


def replaced(kind: str):
    from keras_vit.evaluate.losses import BETAS

    return lambda: (round(100 * (1 - BETAS[kind])),)


def log_zero() -> tuple:
    from keras_vit.evaluate.losses import LOG_ZERO

    return (f"{LOG_ZERO:g}",)


def threshold() -> tuple:
    from keras_vit.evaluate.multi_label import DEFAULT

    return (DEFAULT,)


def loaded_checkpoints() -> tuple:
    """The number of timm's checkpoints, if none of them is refused."""
    from keras_vit.weights.timm_checkpoints import timm_checkpoints

    return (sum(row.refusal is None for row in timm_checkpoints()),)


def checkpoints() -> tuple:
    with (ROOT / "keras_vit/weights/timm_checkpoints.csv").open(encoding="utf-8") as file:
        return (sum(1 for _ in csv.DictReader(file)),)


def transformers_models() -> tuple:
    from keras_vit.weights.transformers_checkpoints import transformers_checkpoints

    return (len(transformers_checkpoints()),)


def flexivit_size() -> tuple:
    from keras_vit.models.variants import flexivit

    return (flexivit.ROWS[0].image_size,)


def closeness_of_efficientnets() -> tuple:
    value, _, _ = bound("weights/test_efficientnets.py", "close", r"expected\) < ([\de.-]+)")()
    return (value,)


EVALUATION, LABELS = "docs/evaluation.md", "docs/labels.md"
JUDGED = (
    Claim(EVALUATION, "and the exit status is 1.", "the exit status of an evaluation without some images"),
    Claim(EVALUATION, "of 1,000 bootstrap resamples", "the default of `labelled_results`"),
    Claim(EVALUATION, "(Guo et al. 2017)", "a year"),
    Claim(EVALUATION, "(Northcutt et al. 2021)", "a year"),
    Claim(EVALUATION, "grey thumbnails of {} x {} pixels with a correlation of at least {}", thumbnails),
    Claim(EVALUATION, "({} of equal width)", bins),
    Claim(EVALUATION, "up to {} wrong predictions", listed),
    Claim(EVALUATION, "up to {} images with the more likely class", listed),
    Claim(EVALUATION, "up to {} pairs of classes", listed),
    Claim(EVALUATION, "exact for fewer than {} images", exact),
    Claim(LABELS, "by name; 1 for the others", "the neutral weight"),
    Claim(LABELS, "replaces {} % of the target by the predicted probabilities", replaced("soft")),
    Claim(LABELS, "replaces {} % of the target by the predicted class", replaced("hard")),
    Claim(LABELS, "| 0.1 times the cross entropy, and 1 time", "the values of the example"),
    Claim(LABELS, "reverse cross entropy with log 0 = {}", log_zero),
    Claim(LABELS, "spreads 10 % of the target", "the value of the example"),
    Claim(LABELS, "{} for `soft` and {} for `hard`", betas),
    Claim(LABELS, "all thresholds are {}.", threshold),
    Claim(LABELS, "several columns of 0 and 1 |", "the two values of a label"),
    Claim(LABELS, "whose rows sum to 1 |", "the sum of probabilities"),
    Claim(EVALUATION, "columns of 0 and 1. Their", "the two values of a label"),
    Claim(LABELS, "Each row must sum to 1, up", "the sum of probabilities"),
    Claim("docs/quality.md", "| keras.applications | {} of", closeness_of_efficientnets),
    Claim("docs/quality.md", "| EfficientNet, logits | timm | {} of", closeness_of_efficientnets),
    Claim(
        "docs/quality.md",
        "On 200 photographs no pixel differed from transformers' processors, in Python or in the graph, and logits "
        "differed by at most 1.4e-6 of the largest.",
        "printed by tests/preprocessing/test_photos.py on 2026-11-29",
    ),
    Claim("docs/weights.md", "takes pixels in 0..255", "8-bit pixels"),
    Claim("docs/weights.md", "timm's {} checkpoints on the", checkpoints),
    Claim("docs/weights.md", "and {} models of transformers", transformers_models),
    Claim("docs/zoo.md", "and **SigLIP 2**", "a name"),
    Claim("README.md", "SigLIP, SigLIP 2, ", "a name"),
    Claim("README.md", "All {} checkpoints of timm's", loaded_checkpoints),
    Claim("docs/zoo.md", "on images of {} pixels. `patch_size`", flexivit_size),
    Claim("docs/zoo.md", "timm's {} checkpoints: which", checkpoints),
)
