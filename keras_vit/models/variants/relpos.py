"""timm's ViTs with relative position biases that an MLP computes, and with norms after the branches.

Both are from Swin V2 (arXiv 2111.09883). Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_RELPOS = {
    "positions": "none", "relative_bias": "mlp", "qkv_bias": "none", "layer_scale": 1e-5, "activation": "gelu",
}  # fmt: skip
_POOLED = {**_RELPOS, "pooling": "gap", "norm_after_pooling": True}

S16 = replace(
    vit.S16, name="RelPos_ViT_S16", paper_name="ViT-S/16 relpos", timm_name="vit_relpos_small_patch16",
    **_POOLED,
    parameters=ParameterCounts(21_598_920, 21_983_920, 30_008_475),
)  # fmt: skip
M16 = replace(
    vit.S16, name="RelPos_ViT_M16", paper_name="ViT-M/16 relpos", timm_name="vit_relpos_medium_patch16",
    width=512, mlp_dim=2048, num_heads=8, **_POOLED,
    parameters=ParameterCounts(38_234_208, 38_747_208, 49_439_667),
)  # fmt: skip
B16 = replace(
    vit.B16, name="RelPos_ViT_B16", paper_name="ViT-B/16 relpos", timm_name="vit_relpos_base_patch16",
    **_POOLED,
    parameters=ParameterCounts(85_660_560, 86_429_560, 102_457_827),
)  # fmt: skip
M16_CLS = replace(
    vit.S16, name="RelPos_ViT_M16_cls", paper_name="ViT-M/16 relpos cls",
    timm_name="vit_relpos_medium_patch16_cls", width=512, mlp_dim=2048, num_heads=8, **_RELPOS, relative_bias_dim=256,
    parameters=ParameterCounts(38_251_616, 38_764_616, 49_457_075),
)  # fmt: skip
B16_CLSGAP = replace(
    vit.B16, name="RelPos_ViT_B16_clsgap", paper_name="ViT-B/16 relpos clsgap",
    timm_name="vit_relpos_base_patch16_clsgap", class_token=True, **_POOLED,
    parameters=ParameterCounts(85_661_328, 86_430_328, 102_458_595),
)  # fmt: skip

S16_SHARED = replace(
    S16, name="SRelPos_ViT_S16", paper_name="ViT-S/16 shared relpos", timm_name="vit_srelpos_small_patch16",
    relative_bias="shared_mlp", relative_bias_dim=384, norm_after_pooling=False,
    parameters=ParameterCounts(21_588_486, 21_973_486, 29_998_041),
)  # fmt: skip
M16_SHARED = replace(
    M16, name="SRelPos_ViT_M16", paper_name="ViT-M/16 shared relpos", timm_name="vit_srelpos_medium_patch16",
    relative_bias="shared_mlp", relative_bias_dim=512, norm_after_pooling=False,
    parameters=ParameterCounts(38_222_856, 38_735_856, 49_428_315),
)  # fmt: skip
_POST_NORM = {"block": "post_norm", "layer_scale": None, "norm_after_pooling": False}
M16_RPN = replace(
    M16, name="RelPos_ViT_M16_rpn", paper_name="ViT-M/16 relpos post-norm", timm_name="vit_relpos_medium_patch16_rpn",
    **_POST_NORM,
    parameters=ParameterCounts(38_221_920, 38_734_920, 49_427_379),
)  # fmt: skip
B32_PLUS_RPN = replace(
    B16, name="RelPos_ViT_B32_plus_rpn", paper_name="ViT-B+/32 relpos post-norm",
    timm_name="vit_relpos_base_patch32_plus_rpn", width=896, mlp_dim=3584, num_heads=14, patch_size=32, qkv_bias="qkv",
    image_size=256, **_POST_NORM,
    parameters=ParameterCounts(118_526_760, 119_423_760, 138_119_931),
)  # fmt: skip
B16_RPN = replace(
    vit.B16, name="ViT_B16_rpn", paper_name="ViT-B/16 post-norm", timm_name="vit_base_patch16_rpn",
    block="post_norm", qkv_bias="none", activation="gelu", pooling="gap", norm_after_pooling=True,
    parameters=ParameterCounts(85_769_472, 86_538_472, 102_566_739),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (
    S16,
    M16,
    B16,
    M16_CLS,
    B16_CLSGAP,
    S16_SHARED,
    M16_SHARED,
    M16_RPN,
    B32_PLUS_RPN,
    B16_RPN,
)
