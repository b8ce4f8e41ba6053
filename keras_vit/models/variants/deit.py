"""DeiT III (arXiv 2204.07118): LayerScale, and positions for the patches only. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

S16 = replace(
    vit.S16, name="DeiT3_S16", paper_name="DeiT-III-S/16", timm_name="deit3_small_patch16",
    layer_scale=1e-6, prefix_positions=False, activation="gelu",
    parameters=ParameterCounts(21_674_496, 22_059_496, 30_084_051),
)  # fmt: skip
M16 = replace(
    S16, name="DeiT3_M16", width=512, mlp_dim=2048, num_heads=8, paper_name="DeiT-III-M/16",
    timm_name="deit3_medium_patch16", parameters=ParameterCounts(38_336_512, 38_849_512, 49_541_971),
)  # fmt: skip
B16 = replace(
    S16, name="DeiT3_B16", width=768, mlp_dim=3072, num_heads=12, paper_name="DeiT-III-B/16",
    timm_name="deit3_base_patch16", parameters=ParameterCounts(85_816_320, 86_585_320, 102_613_587),
)  # fmt: skip
L16 = replace(
    S16, name="DeiT3_L16", width=1024, depth=24, mlp_dim=4096, num_heads=16, paper_name="DeiT-III-L/16",
    timm_name="deit3_large_patch16", parameters=ParameterCounts(303_349_760, 304_374_760, 325_738_835),
)  # fmt: skip
H14 = replace(
    S16, name="DeiT3_H14", width=1280, depth=32, mlp_dim=5120, num_heads=16, patch_size=14, paper_name="DeiT-III-H/14",
    timm_name="deit3_huge_patch14", parameters=ParameterCounts(630_845_440, 632_126_440, 658_826_323),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (S16, M16, B16, L16, H14)
