"""C-RADIO (arXiv 2312.06709) and InternViT (arXiv 2312.14238), both without a final norm.

Parameter counts are timm's. timm's H/16 and g/16 of version 3 store positions for images of 2048 pixels, these rows
for 512.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_RADIO = {"final_norm": False, "prefix_positions": False, "image_size": 512, "activation": "gelu"}

B16 = replace(
    vit.B16, name="RADIOv3_B16", paper_name="C-RADIOv3-B/16",
    timm_name="vit_base_patch16_radio_v3", registers=7, layer_scale=1e-5, **_RADIO,
    parameters=ParameterCounts(86_456_064, 87_225_064, 103_253_331),
)  # fmt: skip
L16 = replace(
    vit.L16, name="RADIOv3_L16", paper_name="C-RADIOv3-L/16",
    timm_name="vit_large_patch16_radio_v3", registers=7, layer_scale=1e-5, **_RADIO,
    parameters=ParameterCounts(304_202_752, 305_227_752, 326_591_827),
)  # fmt: skip
So400m16 = replace(
    vit.B16, name="RADIOv4_So400m16", paper_name="C-RADIOv4-So400m/16",
    timm_name="vit_so400m_patch16_radio_v4", width=1152, depth=27, mlp_dim=4304, num_heads=16, 
    registers=9, **_RADIO,
    parameters=ParameterCounts(413_543_664, 414_696_664, 438_728_643),
)  # fmt: skip
H16 = replace(
    vit.H16, name="RADIOv4_H16", paper_name="C-RADIOv4-H/16",
    timm_name="vit_huge_patch16_radio_v4", registers=9, **_RADIO,
    parameters=ParameterCounts(631_985_920, 633_266_920, 659_966_803),
)  # fmt: skip
H16_V3 = replace(
    H16, name="RADIOv3_H16", paper_name="C-RADIOv3-H/16", timm_name="naflexvit_huge_patch16_radio_v3", registers=7,
    parameters=ParameterCounts(631_983_360, 633_264_360, 659_964_243),
)  # fmt: skip
G16_V3 = replace(
    vit.L16, name="RADIOv3_g16", paper_name="C-RADIOv3-g/16", timm_name="naflexvit_giant_patch16_radio_v3",
    width=1536, depth=40, mlp_dim=6144, num_heads=24, registers=7, **_RADIO,
    parameters=ParameterCounts(1_136_027_136, 1_137_564_136, 1_169_599_827),
)  # fmt: skip
InternViT_300M = replace(
    vit.L16, name="InternViT_300M", paper_name="InternViT-300M/14",
    timm_name="vit_intern300m_patch14", patch_size=14, layer_scale=0.1, final_norm=False,
    activation="gelu", image_size=448,
    parameters=ParameterCounts(304_012_288, 305_037_288, 326_401_363),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, L16, So400m16, H16, H16_V3, G16_V3, InternViT_300M)
