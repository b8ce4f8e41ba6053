"""The image encoders of SAM (arXiv 2304.02643), which are ViTDet's backbone (arXiv 2203.16527) with a neck.

Most blocks attend within windows of 14 x 14 patches, and relative positions are decomposed into rows and columns. The
models were trained on images of 1024 x 1024 pixels. `SAM_B16_224` is timm's model for 224 pixels: it has no absolute
positions, and a norm in place of the neck. Parameter counts are timm's, at these sizes.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_SAM = {"activation": "gelu", "relative_bias": "decomposed", "window": 14, "neck": 256, "pooling": "gap"}
_BASE = {**_SAM, "global_blocks": (2, 5, 8, 11)}

B16_224 = replace(
    vit.B16, name="SAM_B16_224", paper_name="SAM-B/16-224", timm_name="samvit_base_patch16_224",
    positions="none", layer_norm_epsilon=1e-5, **{**_BASE, "neck": 0},
    parameters=ParameterCounts(85_688_064, 86_457_064, 102_485_331),
)  # fmt: skip
B16 = replace(
    vit.B16, name="SAM_B16", paper_name="SAM-B/16", timm_name="samvit_base_patch16", image_size=1024, **_BASE,
    parameters=ParameterCounts(89_670_912, 89_927_912, 95_284_563),
)  # fmt: skip
L16 = replace(
    vit.L16, name="SAM_L16", paper_name="SAM-L/16", timm_name="samvit_large_patch16", image_size=1024, **_SAM,
    global_blocks=(5, 11, 17, 23),
    parameters=ParameterCounts(308_278_272, 308_535_272, 313_891_923),
)  # fmt: skip
H16 = replace(
    vit.H16, name="SAM_H16", paper_name="SAM-H/16", timm_name="samvit_huge_patch16", image_size=1024, **_SAM,
    global_blocks=(7, 15, 23, 31),
    parameters=ParameterCounts(637_026_048, 637_283_048, 642_639_699),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16_224, B16, L16, H16)  # a name with a size finds the first row that has it
