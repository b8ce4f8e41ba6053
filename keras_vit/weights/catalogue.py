"""Find published checkpoints by tag, official name, augreg name, or in augreg's index."""

import csv
import difflib
import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keras_vit.weights.released import AUGREG_MODELS, OFFICIAL_MODELS, RELEASED, Released
from keras_vit.weights.timm_checkpoints import TimmCheckpoint, timm_checkpoints

INDEX_PATH = "vit_models/augreg/index.csv"
_NUMBER = r"\d+(?:\.\d+)?"
_PRETRAINED = re.compile(
    rf"(?P<name>[A-Za-z0-9_]+)-(?P<ds>i1k|i21k)-(?P<epochs>\d+)ep-lr_(?P<lr>{_NUMBER})-aug_(?P<aug>[a-z]+\d?)"
    rf"-wd_(?P<wd>{_NUMBER})-do_(?P<do>{_NUMBER})-sd_(?P<sd>{_NUMBER})"
)
_ADAPTED = re.compile(rf"(?P<ds>[a-z0-9_]+)-steps_(?P<steps>\d+)k-lr_(?P<lr>{_NUMBER})-res_(?P<resolution>\d+)")
_CLASSES = {"imagenet2012": 1000, "cifar100": 100, "oxford_iiit_pet": 37, "resisc45": 45, "kitti": 4}


@dataclass(frozen=True)
class AugReg:
    """The parsed name of one of augreg's 50,000 files (arXiv 2106.10270).

    Args:
        name: name of the model, such as `B_16`.
        dataset: data set of the pre-training, `i1k` or `i21k`.
        epochs: epochs of the pre-training.
        learning_rate: learning rate of the pre-training.
        augmentation: `none`, `light0` ... `strong2`.
        weight_decay: weight decay of the pre-training.
        dropout: dropout rate of the pre-training.
        stochastic_depth: stochastic depth of the pre-training.
        adapted_to: data set of the fine-tuning; None without fine-tuning.
        steps: steps of the fine-tuning; `0k` in a name means 500.
        adapted_learning_rate: learning rate of the fine-tuning.
        resolution: side of the images in pixels; 224 without fine-tuning.
    """

    name: str
    dataset: str
    epochs: int
    learning_rate: float
    augmentation: str
    weight_decay: float
    dropout: float
    stochastic_depth: float
    adapted_to: str | None = None
    steps: int | None = None
    adapted_learning_rate: float | None = None
    resolution: int = 224


def parse_augreg(name: str) -> AugReg | None:
    """Parse the name of an augreg file, with or without `.npz`; return None for other names."""
    upstream, _, adapted = name.removeprefix("augreg/").removesuffix(".npz").partition("--")
    first, second = _PRETRAINED.fullmatch(upstream), _ADAPTED.fullmatch(adapted)
    if not first or first["name"] not in AUGREG_MODELS or (adapted and not second):
        return None
    numbers = (float(first[key]) for key in ("wd", "do", "sd"))
    pretraining = (first["name"], first["ds"], int(first["epochs"]), float(first["lr"]), first["aug"], *numbers)
    if not second:
        return AugReg(*pretraining)
    steps = 1000 * int(second["steps"]) or 500
    return AugReg(*pretraining, second["ds"], steps, float(second["lr"]), int(second["resolution"]))


def list_weights(glob: str = "*") -> list[str]:
    """Return the tags of published checkpoints, as in `list_weights("ViT_B16")` or `list_weights("*.augreg_in21k*")`.

    Args:
        glob: a builder's name, or a shell pattern of tags or builders' names.
    """
    return [row.tag for row in RELEASED if any(fnmatch.fnmatchcase(name, glob) for name in (row.model, row.tag))]


def find_released(name: str) -> Released:
    """Return the published file of a tag, an official name or an augreg name.

    Raises:
        ValueError: no published file has this name; the message holds the three nearest tags.
    """
    if name == "augreg/index":
        return Released(name, "", INDEX_PATH, None, None)
    for row in RELEASED:
        if name.removesuffix(".npz") in (row.tag, *row.aliases):
            return row
    if augreg := parse_augreg(name):
        file = name.removeprefix("augreg/").removesuffix(".npz")
        model, _ = AUGREG_MODELS[augreg.name]
        classes = _CLASSES.get(augreg.adapted_to) or (1000 if augreg.dataset == "i1k" else 21843)
        if augreg.adapted_to and augreg.adapted_to not in _CLASSES:
            classes = None
        return Released(file, model, f"vit_models/augreg/{file}.npz", classes, augreg.resolution)
    folder, _, official = name.removesuffix(".npz").partition("/")
    if folder == "gsam" and official in OFFICIAL_MODELS:  # the bucket has no published listing
        model, timm = OFFICIAL_MODELS[official]
        return Released(f"{timm}_224.gsam_in1k", model, f"vit_models/gsam/{official}.npz", 1000, 224)
    vtab = re.fullmatch(r"vtab/BiT-M-R(\d+x\d)-run[0-2]-[a-z0-9_.-]+", name.removesuffix(".npz"))
    if vtab:
        return Released(name, f"BiT_R{vtab[1]}", f"bit_models/{name.removesuffix('.npz')}.npz", None, None)
    nearest = difflib.get_close_matches(name, [row.tag for row in RELEASED], n=3, cutoff=0)
    raise ValueError(
        f"weights expected a file or a tag of list_weights(), received {name!r}; the nearest are {', '.join(nearest)}."
    )


@dataclass(frozen=True)
class PublishedCheckpoint:
    """One line of `weights find`.

    Args:
        tag: the tag.
        model: name of the builder, or timm's name of the architecture.
        parameters: number of parameters.
        resolution: side of the images in pixels.
        dataset: data set of the classifier.
        accuracy: published top-1 accuracy.
        source: publication of the accuracy.
        on_hub: the row of timm's checkpoint, if timm publishes it on the Hugging Face hub.
    """

    tag: str
    model: str
    parameters: int | None
    resolution: int | None
    dataset: str | None
    accuracy: float | None
    source: str | None
    on_hub: TimmCheckpoint | None = None

    @property
    def refusal(self) -> str | None:
        """Return why `from_pretrained` refuses the checkpoint; None if it loads. The first call takes seconds."""
        return self.on_hub.refusal if self.on_hub and self.model == self.on_hub.architecture else None


_DATASETS = {1000: "imagenet2012", 21843: "imagenet21k"}
_SORTS = ("accuracy", "parameters", "resolution", "tag")


def find(
    model: str | None = None,
    resolution: int | None = None,
    under: int | None = None,
    dataset: str | None = "imagenet2012",
    sort: str = "accuracy",
    index: str | os.PathLike | None = None,
    parameters_of=None,
    *,
    words: Sequence[str] = (),
    family: str | None = None,
    licence: str | None = None,
    loads: bool = False,
    hub: bool = False,
) -> list[PublishedCheckpoint]:
    """Return the published checkpoints that match, best first.

    Args:
        model: a name of a model, such as `B_16`, `ViT_B16` or `vit_base_patch16`.
        resolution: side of the images in pixels.
        under: upper limit of the number of parameters.
        dataset: data set of the classifier; None for all.
        sort: `accuracy`, `parameters`, `resolution` or `tag`.
        index: path of augreg's index.csv, which adds files and accuracies; None searches the published rows only.
        parameters_of: a function of a builder's name that returns its number of parameters.
        words: parts of the tag.
        family: a family of `timm_checkpoints.FAMILIES`, or `vit`.
        licence: the licence, as timm states it.
        loads: whether to leave out the checkpoints that `from_pretrained` refuses.
        hub: whether to search timm's checkpoints on the Hugging Face hub, too. `family` and `licence` know only these.

    Raises:
        FileNotFoundError: `index` does not exist.
        ValueError: `sort` is unknown, or the index is not augreg's table.
    """
    if sort not in _SORTS:
        raise ValueError(f"sort expected one of {_SORTS}, received {sort!r}.")
    lines = {} if index is None else {row.tag: row for row in _from_index(Path(index))}
    rows = []
    for released in RELEASED:
        row = _from_released(released, parameters_of)
        same = next((lines.pop(name) for name in released.aliases if name in lines), row)
        rows.append(row if row.accuracy is not None else replace(row, accuracy=same.accuracy, source=same.source))
    rows += lines.values()
    rows = _with_hub(rows) if hub else rows
    wanted = [
        row
        for row in rows
        if (model is None or model in _names(row))
        and (resolution is None or row.resolution == resolution)
        and (under is None or (row.parameters or 0) < under)
        and (dataset is None or row.dataset == dataset)
        and all(word.lower() in row.tag.lower() for word in words)
        and (family is None or getattr(row.on_hub, "family", None) == family)
        and (licence is None or getattr(row.on_hub, "licence", None) == licence)
        and not (loads and row.refusal)
    ]
    return _ordered(wanted, sort)


def _ordered(rows: list[PublishedCheckpoint], sort: str) -> list[PublishedCheckpoint]:
    """Return rows best first; those without a value last, and equal ones by tag."""
    largest_first = sort in ("accuracy", "resolution")
    missing = float("-inf") if largest_first else float("inf")

    def key(row):
        value = getattr(row, sort)
        return value if isinstance(value, str) else missing if value is None else value

    return sorted(sorted(rows, key=lambda row: row.tag), key=key, reverse=largest_first)


def _with_hub(rows: list[PublishedCheckpoint]) -> list[PublishedCheckpoint]:
    """Return the rows with their entries on the hub, followed by timm's checkpoints that are published only there."""
    on_hub = {row.tag: row for row in timm_checkpoints()}
    known = [replace(row, on_hub=on_hub.pop(row.tag, None)) for row in rows]
    others = [
        PublishedCheckpoint(
            row.tag, row.architecture, row.parameters, max(row.spec.size), _DATASETS.get(row.classes), None, None, row
        )
        for row in on_hub.values()
    ]
    return known + others


def _names(row: PublishedCheckpoint) -> set[str]:
    short = {name for name, (model, _) in AUGREG_MODELS.items() if model == row.model}
    official = {name for name, (model, _) in OFFICIAL_MODELS.items() if model == row.model}
    arch = row.tag.partition(".")[0]
    return {row.model, row.tag, arch, re.sub(r"_\d+$", "", arch), *short, *official}


def _from_released(row: Released, parameters_of) -> PublishedCheckpoint:
    dataset = _DATASETS.get(row.classes)
    parameters = parameters_of(row.model) if parameters_of else None
    return PublishedCheckpoint(row.tag, row.model, parameters, row.image_size, dataset, row.accuracy, row.source)


def _from_index(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"index expected augreg's index.csv, found nothing at {str(path)!r}.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
        if not rows or not {"name", "filename"} <= rows[0].keys():
            raise ValueError
        for row in rows:
            yield _from_index_row(row)
    except (ValueError, KeyError, TypeError, csv.Error):
        expected = "a table with the columns name, filename, adapt_filename, ..."
        raise ValueError(f"index expected {expected}, received another one in {str(path)!r}.") from None


def _from_index_row(row: dict) -> PublishedCheckpoint:
    number = lambda key: float(row[key]) if row.get(key) not in (None, "", "nan") else None  # noqa: E731
    tag = row.get("adapt_filename") or row["filename"]
    resolution = number("adapt_resolution")
    accuracy = number("adapt_final_test") if row.get("adapt_filename") else number("final_test")
    return PublishedCheckpoint(
        tag,
        AUGREG_MODELS[row["name"]][0],
        int(number("params")) if number("params") else None,
        int(resolution) if resolution else 224,
        row.get("adapt_ds") or {"i1k": "imagenet2012"}.get(row.get("ds"), "imagenet21k"),
        accuracy,
        "index of augreg" if accuracy is not None else None,
    )
