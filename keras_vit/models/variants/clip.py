"""The image towers of CLIP (arXiv 2103.00020) without their projection. Parameter counts are timm's.

OpenAI's models use QuickGELU; LAION's OpenCLIP models, H/14 among them, use GELU.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_CLIP = {"pre_norm": True, "patch_bias": False, "layer_norm_epsilon": 1e-5}

B32 = replace(
    vit.B32, name="CLIP_ViT_B32", paper_name="CLIP-ViT-B/32", timm_name="vit_base_patch32_clip", **_CLIP,
    activation="quick_gelu", parameters=ParameterCounts(87_456_000, 88_225_000, 104_253_267),
)  # fmt: skip
B16 = replace(
    vit.B16, name="CLIP_ViT_B16", paper_name="CLIP-ViT-B/16", timm_name="vit_base_patch16_clip", **_CLIP,
    activation="quick_gelu", parameters=ParameterCounts(85_799_424, 86_568_424, 102_596_691),
)  # fmt: skip
L14 = replace(
    vit.L16, name="CLIP_ViT_L14", patch_size=14, paper_name="CLIP-ViT-L/14", timm_name="vit_large_patch14_clip",
    **_CLIP, activation="quick_gelu", parameters=ParameterCounts(303_179_776, 304_204_776, 325_568_851),
)  # fmt: skip
H14 = replace(
    vit.H14, name="CLIP_ViT_H14", paper_name="OpenCLIP-ViT-H/14", timm_name="vit_huge_patch14_clip", **_CLIP,
    activation="gelu", parameters=ParameterCounts(630_766_080, 632_047_080, 658_746_963),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B32, B16, L14, H14)
