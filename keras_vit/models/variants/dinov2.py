"""DINOv2 (arXiv 2304.07193), and with register tokens (arXiv 2309.16588). Parameter counts are timm's at 518 pixels.

With registers the official files hold a position of the class token, which timm adds to the token itself. The rows
follow timm.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_DINOV2 = {"patch_size": 14, "image_size": 518, "layer_scale": 1e-5, "activation": "gelu"}
_REGISTERS = {"registers": 4, "prefix_positions": False}

S14 = replace(
    vit.S16, name="DINOv2_S14", paper_name="DINOv2-S/14", timm_name="vit_small_patch14_dinov2", **_DINOV2,
    parameters=ParameterCounts(22_056_192, 22_441_192, 30_465_747),
)  # fmt: skip
B14 = replace(
    vit.B16, name="DINOv2_B14", paper_name="DINOv2-B/14", timm_name="vit_base_patch14_dinov2", **_DINOV2,
    parameters=ParameterCounts(86_579_712, 87_348_712, 103_376_979),
)  # fmt: skip
L14 = replace(
    vit.L16, name="DINOv2_L14", paper_name="DINOv2-L/14", timm_name="vit_large_patch14_dinov2", **_DINOV2,
    parameters=ParameterCounts(304_367_616, 305_392_616, 326_756_691),
)  # fmt: skip
S14_REG = replace(
    S14, name="DINOv2_S14_reg", paper_name="DINOv2-reg-S/14", timm_name="vit_small_patch14_reg4_dinov2", **_REGISTERS,
    parameters=ParameterCounts(22_057_344, 22_442_344, 30_466_899),
)  # fmt: skip
B14_REG = replace(
    B14, name="DINOv2_B14_reg", paper_name="DINOv2-reg-B/14", timm_name="vit_base_patch14_reg4_dinov2", **_REGISTERS,
    parameters=ParameterCounts(86_582_016, 87_351_016, 103_379_283),
)  # fmt: skip
L14_REG = replace(
    L14, name="DINOv2_L14_reg", paper_name="DINOv2-reg-L/14", timm_name="vit_large_patch14_reg4_dinov2", **_REGISTERS,
    parameters=ParameterCounts(304_370_688, 305_395_688, 326_759_763),
)  # fmt: skip

# The width of SwiGLU's hidden layer is 2/3 of four times the model's, rounded up to a multiple of 8.
G14 = Variant(
    "DINOv2_g14", 1536, 40, 4096, 24, paper_name="DINOv2-g/14", timm_name="vit_giant_patch14_dinov2", gated_mlp=True,
    **{**_DINOV2, "activation": "silu"}, parameters=ParameterCounts(1_136_479_232, 1_138_016_232, 1_170_051_923),
)  # fmt: skip
G14_REG = replace(
    G14, name="DINOv2_g14_reg", paper_name="DINOv2-reg-g/14", timm_name="vit_giant_patch14_reg4_dinov2", **_REGISTERS,
    parameters=ParameterCounts(1_136_483_840, 1_138_020_840, 1_170_056_531),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (S14, B14, L14, G14, S14_REG, B14_REG, L14_REG, G14_REG)
