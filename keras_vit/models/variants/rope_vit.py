"""RoPE-ViT (arXiv 2403.13298), with fixed or learned frequencies, and timm's models with RoPE and registers.

Parameter counts are timm's. APE stands for learned absolute positions of the patches.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.parts import Rope
from keras_vit.models.variants.rows import ParameterCounts, Variant

_ROPE = {"positions": "none", "layer_scale": 1e-5, "activation": "gelu"}
_AXIAL = {**_ROPE, "rope": Rope(100.0, order="xy")}
_MIXED = {**_ROPE, "rope": Rope(10.0, learned=True, order="xy")}
_APE = {"positions": "learned", "prefix_positions": False}
_TIMM = {
    **_ROPE, "rope": Rope(reference_grid=(16, 16)), "qkv_bias": "qv", "image_size": 256, "pooling": "gap",
    "norm_after_pooling": True,
}  # fmt: skip

S16 = replace(
    vit.S16, name="RoPE_ViT_S16", paper_name="RoPE-ViT-S/16 axial", timm_name="vit_small_patch16_rope", **_AXIAL,
    parameters=ParameterCounts(21_599_232, 21_984_232, 30_008_787),
)  # fmt: skip
S16_APE = replace(
    vit.S16, name="RoPE_ViT_S16_ape", paper_name="RoPE-ViT-S/16 axial+APE", timm_name="vit_small_patch16_rope_ape",
    **{**_AXIAL, **_APE},
    parameters=ParameterCounts(21_674_496, 22_059_496, 30_084_051),
)  # fmt: skip
S16_MIXED = replace(
    vit.S16, name="RoPE_ViT_S16_mixed", paper_name="RoPE-ViT-S/16 mixed", timm_name="vit_small_patch16_rope_mixed",
    **_MIXED,
    parameters=ParameterCounts(21_603_840, 21_988_840, 30_013_395),
)  # fmt: skip
S16_MIXED_APE = replace(
    vit.S16, name="RoPE_ViT_S16_mixed_ape", paper_name="RoPE-ViT-S/16 mixed+APE",
    timm_name="vit_small_patch16_rope_mixed_ape", **{**_MIXED, **_APE},
    parameters=ParameterCounts(21_679_104, 22_064_104, 30_088_659),
)  # fmt: skip
B16 = replace(
    vit.B16, name="RoPE_ViT_B16", paper_name="RoPE-ViT-B/16 axial", timm_name="vit_base_patch16_rope", **_AXIAL,
    parameters=ParameterCounts(85_665_792, 86_434_792, 102_463_059),
)  # fmt: skip
B16_APE = replace(
    vit.B16, name="RoPE_ViT_B16_ape", paper_name="RoPE-ViT-B/16 axial+APE", timm_name="vit_base_patch16_rope_ape",
    **{**_AXIAL, **_APE},
    parameters=ParameterCounts(85_816_320, 86_585_320, 102_613_587),
)  # fmt: skip
B16_MIXED = replace(
    vit.B16, name="RoPE_ViT_B16_mixed", paper_name="RoPE-ViT-B/16 mixed", timm_name="vit_base_patch16_rope_mixed",
    **_MIXED,
    parameters=ParameterCounts(85_675_008, 86_444_008, 102_472_275),
)  # fmt: skip
B16_MIXED_APE = replace(
    vit.B16, name="RoPE_ViT_B16_mixed_ape", paper_name="RoPE-ViT-B/16 mixed+APE",
    timm_name="vit_base_patch16_rope_mixed_ape", **{**_MIXED, **_APE},
    parameters=ParameterCounts(85_825_536, 86_594_536, 102_622_803),
)  # fmt: skip
L16 = replace(
    vit.L16, name="RoPE_ViT_L16", paper_name="RoPE-ViT-L/16 axial", timm_name="vit_large_patch16_rope", **_AXIAL,
    parameters=ParameterCounts(303_149_056, 304_174_056, 325_538_131),
)  # fmt: skip
L16_APE = replace(
    vit.L16, name="RoPE_ViT_L16_ape", paper_name="RoPE-ViT-L/16 axial+APE", timm_name="vit_large_patch16_rope_ape",
    **{**_AXIAL, **_APE},
    parameters=ParameterCounts(303_349_760, 304_374_760, 325_738_835),
)  # fmt: skip
L16_MIXED = replace(
    vit.L16, name="RoPE_ViT_L16_mixed", paper_name="RoPE-ViT-L/16 mixed", timm_name="vit_large_patch16_rope_mixed",
    **_MIXED,
    parameters=ParameterCounts(303_173_632, 304_198_632, 325_562_707),
)  # fmt: skip
L16_MIXED_APE = replace(
    vit.L16, name="RoPE_ViT_L16_mixed_ape", paper_name="RoPE-ViT-L/16 mixed+APE",
    timm_name="vit_large_patch16_rope_mixed_ape", **{**_MIXED, **_APE},
    parameters=ParameterCounts(303_374_336, 304_399_336, 325_763_411),
)  # fmt: skip
M16_REG1 = replace(
    vit.S16, name="RoPE_ViT_M16_reg1", paper_name="ViT-M/16 RoPE reg1",
    timm_name="vit_medium_patch16_rope_reg1_gap", width=512, mlp_dim=2048, num_heads=8, **_TIMM, registers=1,
    parameters=ParameterCounts(38_230_016, 38_743_016, 49_435_475),
)  # fmt: skip
MediumD16_REG1 = replace(
    vit.S16, name="RoPE_ViT_MediumD16_reg1", paper_name="ViT-MediumD/16 RoPE reg1",
    timm_name="vit_mediumd_patch16_rope_reg1_gap", width=512, depth=20, mlp_dim=2048, num_heads=8,
    **{**_TIMM, "qkv_bias": "none"}, registers=1,
    parameters=ParameterCounts(63_432_704, 63_945_704, 74_638_163),
)  # fmt: skip
Betwixt16_REG4 = replace(
    vit.S16, name="RoPE_ViT_Betwixt16_reg4", paper_name="ViT-Betwixt/16 RoPE reg4",
    timm_name="vit_betwixt_patch16_rope_reg4_gap", width=640, mlp_dim=2560, num_heads=10, **_TIMM, registers=4,
    parameters=ParameterCounts(59_585_920, 60_226_920, 73_587_283),
)  # fmt: skip
B16_REG1 = replace(
    vit.B16, name="RoPE_ViT_B16_reg1", paper_name="ViT-B/16 RoPE reg1",
    timm_name="vit_base_patch16_rope_reg1_gap", **_TIMM, registers=1,
    parameters=ParameterCounts(85_656_576, 86_425_576, 102_453_843),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (
    S16,
    S16_APE,
    S16_MIXED,
    S16_MIXED_APE,
    B16,
    B16_APE,
    B16_MIXED,
    B16_MIXED_APE,
    L16,
    L16_APE,
    L16_MIXED,
    L16_MIXED_APE,
    M16_REG1,
    MediumD16_REG1,
    Betwixt16_REG4,
    B16_REG1,
)
