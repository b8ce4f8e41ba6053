"""Find the published file of a tag, an official name, an augreg name or a URL."""

import difflib
import fnmatch
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

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
    """Return the published file of a tag, an official name, an augreg name, or a URL that the catalogue has.

    Raises:
        ValueError: no published file has this name or URL; the message holds the three nearest tags.
    """
    if "://" in name:
        return _at_url(name)
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


def file_of(row: TimmCheckpoint) -> Released:
    """Return the publisher's own file of a tag of timm, which must have a URL."""
    server, path = urlsplit(row.url).netloc, unquote(urlsplit(row.url).path).lstrip("/")
    size = max(row.spec.size)
    return Released(
        row.tag,
        row.architecture,
        path,
        row.classes or None,
        size,
        sha256=row.sha256_prefix,
        server=f"https://{server}",
    )


def _at_url(url: str) -> Released:
    """Return the published file at a URL."""
    official = next((row for row in RELEASED if row.url == url), None)
    timm = next((row for row in timm_checkpoints() if row.url == url), None)
    if official is None and timm is None:
        raise ValueError(
            f"source expected the URL of a file in the catalogue, received {url!r}: download the file, and pass its "
            "path."
        )
    return official or file_of(timm)
