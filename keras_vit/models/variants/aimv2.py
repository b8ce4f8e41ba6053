"""AIMv2 (arXiv 2411.14402): RMSNorm, SwiGLU, no biases in the blocks, no class token. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants.rows import ParameterCounts, Variant

L14 = Variant(
    "AIMv2_L14", 1024, 24, 2816, 8, 14, paper_name="AIMv2-L/14", timm_name="aimv2_large_patch14", norm="rms",
    layer_norm_epsilon=1e-5, gated_mlp=True, activation="silu", qkv_bias="none", dense_bias=False, patch_norm=True,
    pooling="gap", parameters=ParameterCounts(309_197_824, 310_222_824, 331_586_899),
)  # fmt: skip
H14 = replace(
    L14, name="AIMv2_H14", width=1536, mlp_dim=4096, num_heads=12, paper_name="AIMv2-H/14",
    timm_name="aimv2_huge_patch14", parameters=ParameterCounts(680_851_968, 682_388_968, 714_424_659),
)  # fmt: skip
G14 = replace(
    L14, name="AIMv2_1B14", width=2048, mlp_dim=5632, num_heads=16, paper_name="AIMv2-1B/14",
    timm_name="aimv2_1b_patch14", parameters=ParameterCounts(1_234_958_336, 1_237_007_336, 1_279_714_643),
)  # fmt: skip
G14_3B = replace(
    L14, name="AIMv2_3B14", width=3072, mlp_dim=8192, num_heads=24, paper_name="AIMv2-3B/14",
    timm_name="aimv2_3b_patch14", parameters=ParameterCounts(2_720_658_432, 2_723_731_432, 2_787_781_971),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (L14, H14, G14, G14_3B)
