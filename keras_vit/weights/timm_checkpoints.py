"""List timm's published Vision Transformers, and derive which of them this package loads.

`timm_checkpoints.csv` has a row for each checkpoint of timm 1.0.31, and `timm_arrays.csv` the arrays of each kind of
model. `python -m codegen.timm_checkpoints RESULTS` writes both. Whether a checkpoint loads is no column: the check of
real files reads the names and shapes of the arrays, so that a new architecture changes the answer.
"""

import csv
import functools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.architecture import architecture_of_contents
from keras_vit.weights.contents import read_contents
from keras_vit.weights.unsupported import unsupported

FAMILIES = {  # family: words in tags; the first match counts
    "dinov3": ("dinov3",), "dinov2": ("dinov2",), "dino": (".dino",), "mae": (".mae",), "ijepa": ("ijepa",),
    "siglip": ("siglip",), "eva02": ("eva02",), "beit3": ("beit3",), "beitv2": ("beitv2",), "beit": ("beit_",),
    "eva": ("eva_",), "clip": ("clip",), "deit3": ("deit3",), "deit": ("deit",), "aimv2": ("aimv2",),
    "radio": ("radio",), "pe": ("vit_pe_",), "flexivit": ("flexivit",), "naflexvit": ("naflexvit",),
    "resnetv2": ("resnetv2",),
    "hybrid": ("_r26_", "_r50_", "_r_s16"), "relpos": ("relpos",), "sam": ("samvit",),
}  # fmt: skip


# Source of the accuracies: timm's own measurements, at the image size and the crop of the row.
TIMM_RESULTS = "results/results-imagenet.csv of huggingface/pytorch-image-models"


@dataclass(frozen=True)
class TimmCheckpoint:
    """A published checkpoint.

    Args:
        tag: timm's name of the checkpoint, `ARCHITECTURE.TAG`.
        kind: the architecture with the same arrays in `timm_arrays.csv`.
        classes: number of classes; 0 without a classifier.
        parameters: number of parameters.
        spec: its preprocessing.
        licence: its licence, as timm states it; empty if unknown.
        notes: further words of timm, such as `legacy`.
        repository: its name on the Hugging Face hub; None without one. Some tags share one with another architecture.
        url: the publisher's own file, if timm names one; else empty.
        accuracy: top-1 accuracy on ImageNet-1k's validation set, as `TIMM_RESULTS` states it; None without one.
    """

    tag: str
    kind: str
    classes: int
    parameters: int
    spec: ImageSpec
    licence: str = ""
    notes: str = ""
    repository: str | None = None
    url: str = ""
    accuracy: float | None = None

    @property
    def architecture(self) -> str:
        """Return timm's name of the architecture."""
        return self.tag.partition(".")[0]

    @property
    def family(self) -> str:
        """Return the family, by the first name of a family in the tag; `vit` without one."""
        return next((family for family, words in FAMILIES.items() if any(word in self.tag for word in words)), "vit")

    @property
    def hub(self) -> str | None:
        """Return the name on the Hugging Face hub, as a source of `from_pretrained`; None without one."""
        return self.repository and f"hf://{self.repository}"

    @property
    def shares_repository(self) -> bool:
        """Return whether the files belong to a tag of another architecture, whose config they have."""
        organisation, _, name = (self.repository or "").partition("/")
        return organisation == "timm" and name != self.tag

    @property
    def sha256_prefix(self) -> str | None:
        """Return the first digits of the SHA-256 of the file at `url`, which torch's names state; None without."""
        digits = re.search(r"-([0-9a-f]{8})\.[a-z.]+$", self.url)
        return digits and digits[1]

    @property
    def refusal(self) -> str | None:
        """Return why `from_pretrained` refuses the checkpoint; None if it loads."""
        return _refusal(self.architecture, self.kind)


@functools.cache
def timm_checkpoints() -> tuple[TimmCheckpoint, ...]:
    """Return the rows of the table."""
    return tuple(_parse(**row) for row in _rows("timm_checkpoints.csv"))


def find_timm_checkpoint(tag: str | os.PathLike) -> TimmCheckpoint | None:
    """Return the row of a tag; None if there is none."""
    return next((row for row in timm_checkpoints() if row.tag == tag), None)


def find_timm_hub(repository: str) -> TimmCheckpoint | None:
    """Return the row of a name on the hub, `ORG/NAME`, that has files of its own there; None if there is none."""
    rows = (row for row in timm_checkpoints() if row.repository == repository)
    return next((row for row in rows if not row.shares_repository), None)


def _rows(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _parse(
    tag, kind, image_size, classes, parameters, mean, std, crop_fraction, licence, notes, hub, url, top1, **names
) -> TimmCheckpoint:
    sides = [int(side) for side in image_size.split("x")]
    repository = {"": f"timm/{tag}", "-": None}.get(hub, hub)
    spec = ImageSpec(
        size=(sides[0], sides[-1]),
        crop_fraction=float(crop_fraction),
        mean=tuple(map(float, mean.split())),
        std=tuple(map(float, std.split())),
        **names,
    )
    accuracy = round(float(top1) / 100, 5) if top1 else None
    return TimmCheckpoint(tag, kind, int(classes), int(parameters), spec, licence, notes, repository, url, accuracy)


@dataclass(frozen=True)
class _Headers:
    """Names and shapes of a file that is not there, with the methods that the checks of `weights.files` call."""

    source: str
    shapes: dict[str, tuple[int, ...]]
    config: dict
    integers: dict = field(default_factory=dict)
    grid: None = None

    def require_weights(self) -> None:
        """Accept the arrays, which are not quantized."""

    def refuse_dtype(self, name: str, dtype: str) -> ValueError:
        """Return the error for an array of integers. The table has none."""
        return ValueError(f"source expected arrays of floats, received {name!r} of {dtype}.")


@functools.cache
def _arrays() -> dict[str, dict[str, tuple[int, ...]]]:
    kinds = {row["kind"]: (array.split(":") for array in row["arrays"].split()) for row in _rows("timm_arrays.csv")}
    shape = lambda text: tuple(map(int, text.split("x"))) if text else ()  # noqa: E731
    return {kind: {name: shape(sides) for name, sides in arrays} for kind, arrays in kinds.items()}


@functools.cache
def _refusal(architecture: str, kind: str) -> str | None:
    arrays = _arrays()[kind]
    counters = {name: "int64" for name in arrays if name.endswith(".num_batches_tracked")}
    shapes = {name: shape for name, shape in arrays.items() if name not in counters}
    file = _Headers(architecture, shapes, {"architecture": architecture}, counters)
    try:
        contents = read_contents(file, allow_unsupported=True)
        signs, error = unsupported(file, contents.used), None
    except ValueError as refusal:
        signs, error = unsupported(file), str(refusal)
    if signs or error:
        return f"unsupported: {', '.join(signs)}" if signs else error
    try:
        architecture_of_contents(contents)
    except ValueError as refusal:
        return str(refusal)
    return f"without a place: {', '.join(contents.left_over[:3])}" if contents.left_over else None
