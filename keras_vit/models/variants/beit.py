"""BEiT (arXiv 2106.08254) and BEiT v2 (arXiv 2208.06366): relative position biases. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_BEIT = {
    "positions": "none", "relative_bias": "table", "qkv_bias": "qv", "layer_scale": 1e-5, "activation": "gelu",
    "class_token": True, "pooling": "gap", "norm_after_pooling": True,
}  # fmt: skip

B16 = replace(
    vit.B16, name="BEiT_B16", paper_name="BEiT-B/16", timm_name="beit_base_patch16", **{**_BEIT, "layer_scale": 0.1},
    parameters=ParameterCounts(85_761_984, 86_530_984, 102_559_251),
)  # fmt: skip
L16 = replace(
    vit.L16, name="BEiT_L16", paper_name="BEiT-L/16", timm_name="beit_large_patch16", **_BEIT,
    parameters=ParameterCounts(303_405_568, 304_430_568, 325_794_643),
)  # fmt: skip
V2_B16 = replace(
    vit.B16, name="BEiTv2_B16", paper_name="BEiT-v2-B/16", timm_name="beitv2_base_patch16", **_BEIT,
    parameters=ParameterCounts(85_761_984, 86_530_984, 102_559_251),
)  # fmt: skip
V2_L16 = replace(
    vit.L16, name="BEiTv2_L16", paper_name="BEiT-v2-L/16", timm_name="beitv2_large_patch16", **_BEIT,
    parameters=ParameterCounts(303_405_568, 304_430_568, 325_794_643),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, L16, V2_B16, V2_L16)
