"""The hybrids: a ResNet in front of the patches (arXiv 2010.11929, section 4.1; arXiv 2106.10270).

MobileCLIP's tower has two convolutions with batch norms instead (arXiv 2311.17049); its parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants.parts import ConvStem, ResNetStem
from keras_vit.models.variants.rows import ParameterCounts
from keras_vit.models.variants.vit import B16, B32, L16, L32, S32, Ti16

R_Ti16 = replace(
    Ti16, name="R_ViT_Ti16", patch_size=8, stem=ResNetStem(()), paper_name="R+ViT-Ti/16",
    timm_name="vit_tiny_r_s16_p8", parameters=ParameterCounts(6_144_704, 6_337_704, 10_360_403, 10_397_459),
)  # fmt: skip
R26_S32 = replace(
    S32, name="R26_ViT_S32", patch_size=1, stem=ResNetStem((2, 2, 2, 2)), paper_name="R26+ViT-S/32",
    timm_name="vit_small_r26_s32", parameters=ParameterCounts(36_046_912, 36_431_912, 44_456_467, 44_604_307),
)  # fmt: skip
R26_B32 = replace(
    B32, name="R26_ViT_B32", patch_size=1, stem=ResNetStem((2, 2, 2, 2)), paper_name="R26+ViT-B/32",
    timm_name="vit_base_r26_s32", parameters=ParameterCounts(100_614_976, 101_383_976, 117_412_243, 118_002_835),
)  # fmt: skip
R50_B16 = replace(
    B16, name="R50_ViT_B16", patch_size=1, stem=ResNetStem((3, 4, 9)), paper_name="R50+ViT-B/16",
    timm_name="vit_base_r50_s16", parameters=ParameterCounts(97_890_112, 98_659_112, 114_687_379, 115_277_971),
)  # fmt: skip
R50_B32 = replace(
    B32, name="R50_ViT_B32", patch_size=1, stem=ResNetStem((3, 4, 6, 3)), paper_name="R50+ViT-B/32",
    timm_name=None, parameters=ParameterCounts(110_176_832, 110_945_832, 126_974_099, 127_564_691),
)  # fmt: skip
R50_L16 = replace(
    L16, name="R50_ViT_L16", patch_size=1, stem=ResNetStem((3, 4, 9)), paper_name="R50+ViT-L/16",
    timm_name=None, parameters=ParameterCounts(315_458_624, 316_483_624, 337_847_699, 338_897_299),
)  # fmt: skip
R50_L32 = replace(
    L32, name="R50_ViT_L32", patch_size=1, stem=ResNetStem((3, 4, 6, 3)), paper_name="R50+ViT-L/32",
    timm_name="vit_large_r50_s32", parameters=ParameterCounts(327_969_856, 328_994_856, 350_358_931, 351_408_531),
)  # fmt: skip

MOBILECLIP_B16 = replace(
    B16, name="MobileCLIP_B16", patch_size=2, stem=ConvStem((192, 192)), prefix_positions=False, activation="gelu",
    paper_name="MobileCLIP-B", timm_name="vit_base_mci",
    parameters=ParameterCounts(85_955_328, 86_724_328, 102_752_595),
)  # fmt: skip

ROWS = (R_Ti16, R26_S32, R26_B32, R50_B16, R50_B32, R50_L16, R50_L32, MOBILECLIP_B16)
