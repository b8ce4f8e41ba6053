"""List the published checkpoints: the official files, augreg's index, timm's tags and transformers' models."""

import csv
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec
from keras_vit.weights.released import AUGREG_MODELS, OFFICIAL_MODELS, RELEASED, Released
from keras_vit.weights.timm_checkpoints import TIMM_RESULTS, TimmCheckpoint, timm_checkpoints
from keras_vit.weights.transformers_checkpoints import TransformersCheckpoint, transformers_checkpoints

_DATASETS = {1000: "imagenet2012", 21843: "imagenet21k"}


@dataclass(frozen=True)
class PublishedCheckpoint:
    """A published checkpoint. A field is None if no publication states it.

    Args:
        tag: its name, as a source of `from_pretrained`.
        model: name of the builder, or timm's name of the architecture.
        parameters: number of parameters.
        resolution: side of the images in pixels; None if the model takes any size.
        dataset: data set of the classifier.
        accuracy: published top-1 accuracy on ImageNet-1k's validation set, or on `dataset`.
        source: publication of the accuracy.
        outputs: number of classes, or width of CLIP's projection; 0 without a classifier.
        family: a family of `timm_checkpoints.FAMILIES`, `vit`, `msn` or `data2vec`.
        licence: the licence.
        spec: the preprocessing.
        hub: the name on the Hugging Face hub, `hf://ORG/NAME`.
        url: the publisher's own file.
        sha256: the SHA-256 of that file, or its first 8 digits.
        note: remark about the file.
        timm: timm's row, by which the checks answer whether it loads.
    """

    tag: str
    model: str
    parameters: int | None = None
    resolution: int | None = None
    dataset: str | None = None
    accuracy: float | None = None
    source: str | None = None
    outputs: int | None = None
    family: str | None = None
    licence: str | None = None
    spec: ImageSpec | None = None
    hub: str | None = None
    url: str | None = None
    sha256: str | None = None
    note: str = ""
    timm: TimmCheckpoint | None = None

    @property
    def refusal(self) -> str | None:
        """Return why `from_pretrained` refuses the checkpoint; None if it loads. The first call takes seconds."""
        return self.timm.refusal if self.timm else None

    @property
    def size(self) -> int | None:
        """Return the size of the weights in float32 in bytes, computed from the number of parameters."""
        return self.parameters and 4 * self.parameters

    @property
    def names(self) -> set[str]:
        """Return the names by which `find` knows the checkpoint's model."""
        short = {name for name, (model, _) in AUGREG_MODELS.items() if model == self.model}
        official = {name for name, (model, _) in OFFICIAL_MODELS.items() if model == self.model}
        arch = self.model if self.tag.startswith("hf://") else self.tag.partition(".")[0]
        return {self.model, self.tag, arch, re.sub(r"_\d+$", "", arch), *short, *official}


def published_checkpoints(
    index: str | os.PathLike | None = None, parameters_of=None, hub: bool = False
) -> list[PublishedCheckpoint]:
    """Return all rows. `keras_vit.weights.find.find` describes the arguments."""
    lines = {} if index is None else {row.tag: row for row in _from_index(Path(index))}
    rows = []
    for released in RELEASED:
        row = from_released(released, parameters_of)
        same = next((lines.pop(name) for name in released.aliases if name in lines), row)
        rows.append(row if row.accuracy is not None else replace(row, accuracy=same.accuracy, source=same.source))
    rows += lines.values()
    return _with_hub(rows) if hub else rows


def _with_hub(rows: list[PublishedCheckpoint]) -> list[PublishedCheckpoint]:
    """Return the rows with timm's facts about them, followed by the checkpoints that are published on the hub only."""
    on_hub = {row.tag: row for row in timm_checkpoints()}
    known = [_with_timm(row, on_hub.pop(row.tag)) if row.tag in on_hub else row for row in rows]
    return known + [*map(_from_timm, on_hub.values()), *map(_from_transformers, transformers_checkpoints())]


def _with_timm(row: PublishedCheckpoint, timm: TimmCheckpoint) -> PublishedCheckpoint:
    """Return the row of an official file with what timm states of its copy."""
    facts: dict = {"family": timm.family, "licence": timm.licence or row.licence, "hub": timm.hub}
    if timm.classes == row.outputs:
        facts["parameters"] = timm.parameters
    if row.accuracy is None and timm.accuracy is not None:
        facts |= {"accuracy": timm.accuracy, "source": TIMM_RESULTS}
    return replace(row, **facts)


def _from_timm(row: TimmCheckpoint) -> PublishedCheckpoint:
    return PublishedCheckpoint(
        tag=row.tag,
        model=row.architecture,
        parameters=row.parameters,
        resolution=max(row.spec.size),
        dataset=_DATASETS.get(row.classes),
        accuracy=row.accuracy,
        source=TIMM_RESULTS if row.accuracy is not None else None,
        outputs=row.classes,
        family=row.family,
        licence=row.licence or None,
        spec=row.spec,
        hub=row.hub,
        url=row.url or None,
        sha256=row.sha256_prefix,
        note=row.notes,
        timm=row,
    )


def _from_transformers(row: TransformersCheckpoint) -> PublishedCheckpoint:
    return PublishedCheckpoint(
        tag=row.hub,
        model=row.architecture,
        parameters=row.parameters,
        resolution=row.image_size,
        dataset=_DATASETS.get(row.classes),
        outputs=row.classes,
        family=row.family,
        licence=row.licence or None,
        spec=row.spec,
        hub=row.hub,
        note=f"the weights of {row.same_as}" if row.same_as else "",
    )


def from_released(row: Released, parameters_of=None) -> PublishedCheckpoint:
    """Return the row of an official file."""
    return PublishedCheckpoint(
        tag=row.tag,
        model=row.model,
        parameters=parameters_of(row.model) if parameters_of else None,
        resolution=row.image_size,
        dataset=_DATASETS.get(row.classes),
        accuracy=row.accuracy,
        source=row.source,
        outputs=row.classes,
        family="resnetv2" if row.model.startswith("BiT_") else "hybrid" if row.model.startswith("R") else "vit",
        licence="apache-2.0",
        spec=replace(PLAIN_SCALING, size=row.image_size and (row.image_size, row.image_size)),
        url=row.url,
        sha256=row.sha256,
        note=row.note,
    )


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
