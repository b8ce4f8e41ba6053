"""DeiT (arXiv 2012.12877) and DeiT III (arXiv 2204.07118: LayerScale, and positions for the patches only).

Parameter counts are timm's. timm has two classifiers in a distilled model and returns their mean. This package has one
classifier of both tokens, so that a model has one bias per class less.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_DEIT = {"activation": "gelu"}
_DISTILLED = {"distillation_token": True, "activation": "gelu"}

Ti16_1 = replace(vit.Ti16, name="DeiT_Ti16", paper_name="DeiT-Ti/16", timm_name="deit_tiny_patch16", **_DEIT)
S16_1 = replace(vit.S16, name="DeiT_S16", paper_name="DeiT-S/16", timm_name="deit_small_patch16", **_DEIT)
B16_1 = replace(vit.B16, name="DeiT_B16", paper_name="DeiT-B/16", timm_name="deit_base_patch16", **_DEIT)
Ti16_DISTILLED = replace(
    vit.Ti16, name="DeiT_Ti16_distilled", paper_name="DeiT-Ti/16 distilled",
    timm_name="deit_tiny_distilled_patch16", **_DISTILLED,
    parameters=ParameterCounts(5_524_800, 5_909_800, 13_934_355),
)  # fmt: skip
S16_DISTILLED = replace(
    vit.S16, name="DeiT_S16_distilled", paper_name="DeiT-S/16 distilled",
    timm_name="deit_small_distilled_patch16", **_DISTILLED,
    parameters=ParameterCounts(21_666_432, 22_435_432, 38_463_699),
)  # fmt: skip
B16_DISTILLED = replace(
    vit.B16, name="DeiT_B16_distilled", paper_name="DeiT-B/16 distilled",
    timm_name="deit_base_distilled_patch16", **_DISTILLED,
    parameters=ParameterCounts(85_800_192, 87_337_192, 119_372_883),
)  # fmt: skip
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

ROWS: tuple[Variant, ...] = (
    Ti16_1, S16_1, B16_1, Ti16_DISTILLED, S16_DISTILLED, B16_DISTILLED, S16, M16, B16, L16, H14,
)  # fmt: skip
