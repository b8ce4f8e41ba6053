"""List the models of transformers on the Hugging Face hub whose classes this package reads.

`transformers_checkpoints.csv` has a row for each. The names are those of transformers' documentation and conversion
scripts, and of the publishers' pages. No file was downloaded for the table.
"""

import csv
import functools
from dataclasses import dataclass, replace
from pathlib import Path

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.timm_checkpoints import find_timm_checkpoint, timm_checkpoints

_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_CLIP = {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)}
# What the preprocessor configs state. The sources are transformers' conversion scripts and the defaults of its image
# processors. A row without an entry here has another config, which is read on loading.
PREPROCESSING = {
    "vit": ImageSpec(crop_offset="floor"),
    "dinov2": ImageSpec((224, 224), "center", "bicubic", crop_fraction=224 / 256, **_IMAGENET, crop_offset="floor"),
    "dinov3": ImageSpec((224, 224), **_IMAGENET, crop_offset="floor"),
    "msn": ImageSpec((224, 224), **_IMAGENET, crop_offset="floor"),
    "clip": ImageSpec(resize_mode="center", interpolation="bicubic", **_CLIP, crop_offset="floor"),
    "siglip": ImageSpec(interpolation="bicubic", crop_offset="floor"),
}


@dataclass(frozen=True)
class TransformersCheckpoint:
    """A model of transformers on the hub.

    Args:
        repository: its name on the hub, `ORG/NAME`.
        family: a family of `timm_checkpoints.FAMILIES`, `vit`, `msn` or `data2vec`.
        model_type: transformers' name of the class, a key of `transformers_models.HUB_MODELS` or `TOWERS`.
        architecture: timm's name of the architecture without the image size.
        classes: number of outputs; 0 without a classifier.
        image_size: side of the images in pixels; None if the model takes any size.
        spec: its preprocessing; None if the table does not state it.
        licence: its licence; empty if unknown.
        same_as: the tag of the same weights in the catalogue; empty without one.
    """

    repository: str
    family: str
    model_type: str
    architecture: str
    classes: int
    image_size: int | None
    spec: ImageSpec | None
    licence: str = ""
    same_as: str = ""

    @property
    def hub(self) -> str:
        """Return the name on the hub, as a source of `from_pretrained`."""
        return f"hf://{self.repository}"

    @property
    def parameters(self) -> int | None:
        """Return the number of parameters of timm's model with the same weights or arrays; None without one."""
        row = find_timm_checkpoint(self.same_as)
        if row is None and self.model_type in ("vit", "vit_msn", "bit"):
            name = f"{self.architecture}_{self.image_size}" if self.image_size else self.architecture
            alike = (row for row in timm_checkpoints() if (row.architecture, row.classes) == (name, self.classes))
            row = next(alike, None)
        return row and row.parameters


@functools.cache
def transformers_checkpoints() -> tuple[TransformersCheckpoint, ...]:
    """Return the rows of the table."""
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        return tuple(_parse(**row) for row in csv.DictReader(file))


def find_transformers_checkpoint(repository: str) -> TransformersCheckpoint | None:
    """Return the row of a name on the hub, `ORG/NAME`; None if there is none."""
    return next((row for row in transformers_checkpoints() if row.repository == repository), None)


def _parse(repository, family, model_type, model, image_size, classes, preprocessing, licence, tag):
    side = int(image_size) if image_size else None
    spec = PREPROCESSING.get(preprocessing)
    if spec is not None and spec.size is None:
        spec = replace(spec, size=(side, side))
    return TransformersCheckpoint(repository, family, model_type, model, int(classes), side, spec, licence, tag)
