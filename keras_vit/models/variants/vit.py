"""The plain Vision Transformers (arXiv 2010.11929, table 1; arXiv 2106.04560; arXiv 2106.10270)."""

from dataclasses import replace

from keras_vit.models.variants.rows import ParameterCounts, Variant

Ti16 = Variant(
    "ViT_Ti16", 192, 12, 768, 3, 16, paper_name="ViT-Ti/16", timm_name="vit_tiny_patch16",
    parameters=ParameterCounts(5_524_416, 5_717_416, 9_740_115, 9_777_171),
)  # fmt: skip
S16 = Variant(
    "ViT_S16", 384, 12, 1536, 6, 16, paper_name="ViT-S/16", timm_name="vit_small_patch16",
    parameters=ParameterCounts(21_665_664, 22_050_664, 30_075_219, 30_223_059),
)  # fmt: skip
S32 = replace(
    S16, name="ViT_S32", patch_size=32, paper_name="ViT-S/32", timm_name="vit_small_patch32",
    parameters=ParameterCounts(22_493_952, 22_878_952, 30_903_507, 31_051_347),
)  # fmt: skip
S8 = replace(  # not in the official code: counts by its closed form, which timm's model confirms
    S16, name="ViT_S8", patch_size=8, paper_name="ViT-S/8", timm_name="vit_small_patch8",
    parameters=ParameterCounts(21_670_272, 22_055_272, 30_079_827, 30_227_667),
)  # fmt: skip
B16 = Variant(
    "ViT_B16", 768, 12, 3072, 12, 16, paper_name="ViT-B/16", timm_name="vit_base_patch16",
    parameters=ParameterCounts(85_798_656, 86_567_656, 102_595_923, 103_186_515),
)  # fmt: skip
B32 = replace(
    B16, name="ViT_B32", patch_size=32, paper_name="ViT-B/32", timm_name="vit_base_patch32",
    parameters=ParameterCounts(87_455_232, 88_224_232, 104_252_499, 104_843_091),
)  # fmt: skip
B8 = replace(
    B16, name="ViT_B8", patch_size=8, paper_name="ViT-B/8", timm_name="vit_base_patch8",
    parameters=ParameterCounts(85_807_872, 86_576_872, 102_605_139, 103_195_731),
)  # fmt: skip
L16 = Variant(
    "ViT_L16", 1024, 24, 4096, 16, 16, paper_name="ViT-L/16", timm_name="vit_large_patch16",
    parameters=ParameterCounts(303_301_632, 304_326_632, 325_690_707, 326_740_307),
)  # fmt: skip
L32 = replace(
    L16, name="ViT_L32", patch_size=32, paper_name="ViT-L/32", timm_name="vit_large_patch32",
    parameters=ParameterCounts(305_510_400, 306_535_400, 327_899_475, 328_949_075),
)  # fmt: skip
H14 = Variant(
    "ViT_H14", 1280, 32, 5120, 16, 14, paper_name="ViT-H/14", timm_name="vit_huge_patch14",
    parameters=ParameterCounts(630_764_800, 632_045_800, 658_745_683, 660_385_363),
)  # fmt: skip
H16 = replace(
    H14, name="ViT_H16", patch_size=16, paper_name="ViT-H/16", timm_name=None,
    parameters=ParameterCounts(630_918_400, 632_199_400, 658_899_283, 660_538_963),
)  # fmt: skip
g14 = Variant(
    "ViT_g14", 1408, 40, 6144, 16, 14, paper_name="ViT-g/14", timm_name="vit_giant_patch14",
    parameters=ParameterCounts(1_011_202_432, 1_012_611_432, 1_041_979_219, 1_043_963_091),
)  # fmt: skip
G14 = Variant(
    "ViT_G14", 1664, 48, 8192, 16, 14, paper_name="ViT-G/14", timm_name="vit_gigantic_patch14",
    parameters=ParameterCounts(1_842_775_680, 1_844_440_680, 1_879_144_275, 1_881_914_835),
)  # fmt: skip

ROWS = (Ti16, S32, S16, S8, B32, B16, B8, L32, L16, H16, H14, g14, G14)
