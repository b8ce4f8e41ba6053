"""The image towers of TIPS v2 (arXiv 2410.16512): DINOv2 with one register token. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import dinov2
from keras_vit.models.variants.rows import ParameterCounts, Variant

_TIPS = {"registers": 1, "image_size": 448, "layer_scale": 1.0}

B14 = replace(
    dinov2.B14_REG, name="TIPSv2_B14", paper_name="TIPSv2-B/14",
    timm_name="vit_base_patch14_reg1_tipsv2", **_TIPS,
    parameters=ParameterCounts(86_314_752, 87_083_752, 103_112_019),
)  # fmt: skip
L14 = replace(
    dinov2.L14_REG, name="TIPSv2_L14", paper_name="TIPSv2-L/14",
    timm_name="vit_large_patch14_reg1_tipsv2", **_TIPS,
    parameters=ParameterCounts(304_014_336, 305_039_336, 326_403_411),
)  # fmt: skip
So400m14 = replace(
    dinov2.B14_REG, name="TIPSv2_So400m14", paper_name="TIPSv2-So400m/14",
    timm_name="vit_so400m_patch14_reg1_tipsv2", width=1152, depth=27, mlp_dim=4304, num_heads=16, 
    **_TIPS,
    parameters=ParameterCounts(413_391_600, 414_544_600, 438_576_579),
)  # fmt: skip
g14 = replace(
    dinov2.G14_REG, name="TIPSv2_g14", paper_name="TIPSv2-g/14",
    timm_name="vit_giant_patch14_reg1_tipsv2", **_TIPS,
    parameters=ParameterCounts(1_135_949_312, 1_137_486_312, 1_169_522_003),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B14, L14, So400m14, g14)
