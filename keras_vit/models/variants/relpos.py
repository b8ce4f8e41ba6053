"""timm's ViTs with relative position biases that an MLP computes (Swin V2, arXiv 2111.09883).

Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_RELPOS = {
    "positions": "none", "relative_bias": "mlp", "qkv_bias": "none", "layer_scale": 1e-5, "activation": "gelu",
}  # fmt: skip
_POOLED = {**_RELPOS, "pooling": "gap", "norm_after_pooling": True}

S16 = replace(
    vit.S16, name="RelPos_ViT_S16", paper_name="ViT-S/16 with relative biases", timm_name="vit_relpos_small_patch16",
    **_POOLED,
    parameters=ParameterCounts(21_598_920, 21_983_920, 30_008_475),
)  # fmt: skip
M16 = replace(
    vit.S16, name="RelPos_ViT_M16", paper_name="ViT-M/16 with relative biases", timm_name="vit_relpos_medium_patch16",
    width=512, mlp_dim=2048, num_heads=8, **_POOLED,
    parameters=ParameterCounts(38_234_208, 38_747_208, 49_439_667),
)  # fmt: skip
B16 = replace(
    vit.B16, name="RelPos_ViT_B16", paper_name="ViT-B/16 with relative biases", timm_name="vit_relpos_base_patch16",
    **_POOLED,
    parameters=ParameterCounts(85_660_560, 86_429_560, 102_457_827),
)  # fmt: skip
M16_CLS = replace(
    vit.S16, name="RelPos_ViT_M16_cls", paper_name="ViT-M/16 with relative biases and a class token",
    timm_name="vit_relpos_medium_patch16_cls", width=512, mlp_dim=2048, num_heads=8, **_RELPOS, relative_bias_dim=256,
    parameters=ParameterCounts(38_251_616, 38_764_616, 49_457_075),
)  # fmt: skip
B16_CLSGAP = replace(
    vit.B16, name="RelPos_ViT_B16_clsgap", paper_name="ViT-B/16 with relative biases beside a class token",
    timm_name="vit_relpos_base_patch16_clsgap", class_token=True, **_POOLED,
    parameters=ParameterCounts(85_661_328, 86_430_328, 102_458_595),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (S16, M16, B16, M16_CLS, B16_CLSGAP)
