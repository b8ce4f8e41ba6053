"""All rows, and the names by which a row is found."""

import difflib
import fnmatch
import re
from dataclasses import replace

from keras_vit.models.variants import (
    aimv2,
    axial,
    beit,
    beit3,
    bit,
    clip,
    deit,
    dino,
    dinov2,
    dinov3,
    efficientnet,
    eva,
    flexivit,
    hybrid,
    ijepa,
    mae,
    naflex,
    perception,
    radio,
    registers,
    relpos,
    rope_vit,
    sam,
    sapiens,
    siglip,
    tips,
    vit,
)
from keras_vit.models.variants.rows import AnyVariant, BiTVariant, EfficientNetVariant, Variant

FAMILIES = (
    vit,
    deit,
    dino,
    mae,
    dinov2,
    clip,
    siglip,
    ijepa,
    beit3,
    aimv2,
    tips,
    radio,
    flexivit,
    registers,
    hybrid,
    bit,
    efficientnet,
    axial,
    dinov3,
    eva,
    beit,
    rope_vit,
    perception,
    relpos,
    naflex,
    sapiens,
    sam,
)
ROWS = tuple(row for family in FAMILIES for row in family.ROWS)
VARIANTS = tuple(row for row in ROWS if isinstance(row, Variant))
BIT_VARIANTS = tuple(row for row in ROWS if isinstance(row, BiTVariant))
EFFICIENTNETS = tuple(row for row in ROWS if isinstance(row, EfficientNetVariant))


def list_models(glob: str = "*") -> list[str]:
    """Return the names of the models that match a shell pattern, such as `list_models("ViT_B*")`."""
    return [row.name for row in ROWS if fnmatch.fnmatchcase(row.name, glob)]


def names_of(row: AnyVariant) -> list[str]:
    """Return a row's names: in this package, in the paper, in timm, and in the names of the official files."""
    names = [row.name, row.paper_name, row.timm_name]
    if row.paper_name:
        official = row.paper_name.replace("/", "_")  # R50+ViT-B_16
        names += [official, official.replace("+ViT-", "_").removeprefix("ViT-")]  # augreg's R50_B_16
    if isinstance(row, BiTVariant):
        names.append(row.name.replace("BiT_", "BiT-"))
    return list(dict.fromkeys(name for name in names if name))


def find_variant(name: str) -> tuple[AnyVariant, str | None]:
    """Return the row of a name, and the weights tag after the name's dot.

    Args:
        name: name of the builder (`ViT_B16`), of the paper (`ViT-B/16`) or of timm (`vit_base_patch16_224`, whose last
            number is the image size). A weights tag may follow a dot.

    Raises:
        ValueError: no row has this name. The message states the three nearest names.
    """
    model, _, tag = name.partition(".")
    for row in ROWS:
        if model in names_of(row):
            return row, tag or None
        sized = row.timm_name and re.fullmatch(re.escape(row.timm_name) + r"_(\d+)", model)
        if sized:
            return replace(row, image_size=int(sized[1])), tag or None
    known = [known for row in ROWS for known in names_of(row)]
    nearest = difflib.get_close_matches(model, known, n=3, cutoff=0)
    raise ValueError(
        f"name expected a model of list_models(), received {name!r}; the nearest are {', '.join(nearest)}."
    )
