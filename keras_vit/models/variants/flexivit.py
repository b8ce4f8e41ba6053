"""FlexiViT (arXiv 2212.08013): positions for the patches only, images of 240 pixels. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_FLEXI = {"prefix_positions": False, "image_size": 240, "activation": "gelu"}

S16 = replace(
    vit.S16, name="FlexiViT_S16", paper_name="FlexiViT-S/16",
    timm_name="flexivit_small", **_FLEXI,
    parameters=ParameterCounts(21_676_416, 22_061_416, 30_085_971),
)  # fmt: skip
B16 = replace(
    vit.B16, name="FlexiViT_B16", paper_name="FlexiViT-B/16",
    timm_name="flexivit_base", **_FLEXI,
    parameters=ParameterCounts(85_820_160, 86_589_160, 102_617_427),
)  # fmt: skip
L16 = replace(
    vit.L16, name="FlexiViT_L16", paper_name="FlexiViT-L/16",
    timm_name="flexivit_large", **_FLEXI,
    parameters=ParameterCounts(303_330_304, 304_355_304, 325_719_379),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (S16, B16, L16)
