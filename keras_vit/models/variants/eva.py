"""EVA (arXiv 2211.07636), and EVA-02 (arXiv 2303.11331) with rotary positions and SwiGLU.

Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.parts import Rope
from keras_vit.models.variants.rows import ParameterCounts, Variant

_POOLED = {"class_token": True, "pooling": "gap", "norm_after_pooling": True}
_EVA02 = {
    "qkv_bias": "qv", "rope": Rope(reference_grid=(16, 16)), "gated_mlp": True, "activation": "silu",
}  # fmt: skip

G14 = replace(
    vit.L16, name="EVA_g14", paper_name="EVA-g/14", timm_name="eva_giant_patch14", width=1408, depth=40, mlp_dim=6144,
    patch_size=14, qkv_bias="qv", activation="gelu", **_POOLED,
    parameters=ParameterCounts(1_011_146_112, 1_012_555_112, 1_041_922_899),
)  # fmt: skip
EVA02_Ti14 = replace(
    vit.Ti16, name="EVA02_Ti14", paper_name="EVA-02-Ti/14", timm_name="eva02_tiny_patch14", mlp_dim=512,
    patch_size=14, **_EVA02, **_POOLED,
    parameters=ParameterCounts(5_502_144, 5_695_144, 9_717_843),
)  # fmt: skip
EVA02_S14 = replace(
    vit.S16, name="EVA02_S14", paper_name="EVA-02-S/14", timm_name="eva02_small_patch14", mlp_dim=1024, patch_size=14,
    **_EVA02, **_POOLED,
    parameters=ParameterCounts(21_621_120, 22_006_120, 30_030_675),
)  # fmt: skip
EVA02_B14 = replace(
    vit.B16, name="EVA02_B14", paper_name="EVA-02-B/14", timm_name="eva02_base_patch14", mlp_dim=2048, patch_size=14,
    mlp_inner_norm=True, **_EVA02, **_POOLED,
    parameters=ParameterCounts(85_758_720, 86_527_720, 102_555_987),
)  # fmt: skip
EVA02_L14 = replace(
    vit.L16, name="EVA02_L14", paper_name="EVA-02-L/14", timm_name="eva02_large_patch14", mlp_dim=2730, patch_size=14,
    mlp_inner_norm=True, **_EVA02, **_POOLED,
    parameters=ParameterCounts(303_268_800, 304_293_800, 325_657_875),
)  # fmt: skip
CLIP_B16 = replace(
    vit.B16, name="EVA02_CLIP_B16", paper_name="EVA-02-CLIP-B/16", timm_name="eva02_base_patch16_clip", mlp_dim=2048,
    mlp_inner_norm=True, attention_inner_norm=True, **_EVA02,
    parameters=ParameterCounts(85_869_312, 86_638_312, 102_666_579),
)  # fmt: skip
CLIP_L14 = replace(
    vit.L16, name="EVA02_CLIP_L14", paper_name="EVA-02-CLIP-L/14", timm_name="eva02_large_patch14_clip", mlp_dim=2730,
    patch_size=14, mlp_inner_norm=True, attention_inner_norm=True, **_EVA02,
    parameters=ParameterCounts(303_317_952, 304_342_952, 325_707_027),
)  # fmt: skip

CLIP_E14 = replace(
    vit.L16, name="EVA02_CLIP_E14", paper_name="EVA-02-CLIP-E/14", timm_name="eva02_enormous_patch14_clip",
    width=1792, depth=64, mlp_dim=15360, patch_size=14, qkv_bias="qv", block="post_norm", activation="gelu",
    parameters=ParameterCounts(4_348_720_896, 4_350_513_896, 4_387_885_395),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (G14, EVA02_Ti14, EVA02_S14, EVA02_B14, EVA02_L14, CLIP_B16, CLIP_L14, CLIP_E14)
