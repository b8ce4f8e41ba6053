"""The image towers of BEiT-3 (arXiv 2208.10442): norms inside attention and MLP. Parameter counts are timm's."""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_BEIT3 = {
    "attention_inner_norm": True, "mlp_inner_norm": True, "layer_norm_epsilon": 1e-5, "activation": "gelu",
}  # fmt: skip

B16 = replace(
    vit.B16, name="BEiT3_B16", paper_name="BEiT-3-B/16",
    timm_name="beit3_base_patch16", **_BEIT3,
    parameters=ParameterCounts(85_890_816, 86_659_816, 102_688_083),
)  # fmt: skip
L16 = replace(
    vit.L16, name="BEiT3_L16", paper_name="BEiT-3-L/16",
    timm_name="beit3_large_patch16", **_BEIT3,
    parameters=ParameterCounts(303_547_392, 304_572_392, 325_936_467),
)  # fmt: skip
g14 = replace(
    vit.g14, name="BEiT3_g14", paper_name="BEiT-3-g/14",
    timm_name="beit3_giant_patch14", **_BEIT3,
    parameters=ParameterCounts(1_011_806_592, 1_013_215_592, 1_042_583_379),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, L16, g14)
