"""I-JEPA (arXiv 2301.08243): Vision Transformers without a class token. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_IJEPA = {"pooling": "gap", "activation": "gelu"}

H14 = replace(
    vit.H14, name="IJEPA_H14", paper_name="I-JEPA-H/14",
    timm_name="vit_huge_patch14_gap", **_IJEPA,
    parameters=ParameterCounts(630_762_240, 632_043_240, 658_743_123),
)  # fmt: skip
H16 = replace(
    vit.H16, name="IJEPA_H16", paper_name="I-JEPA-H/16",
    timm_name="vit_huge_patch16_gap", image_size=448, **_IJEPA,
    parameters=ParameterCounts(631_668_480, 632_949_480, 659_649_363),
)  # fmt: skip
g16 = replace(
    vit.g14, name="IJEPA_g16", paper_name="I-JEPA-g/16",
    timm_name="vit_giant_patch16_gap", patch_size=16, **_IJEPA,
    parameters=ParameterCounts(1_011_368_576, 1_012_777_576, 1_042_145_363),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (H14, H16, g16)
