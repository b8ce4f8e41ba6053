"""DINOv3 (arXiv 2508.10104): rotary positions and register tokens. Parameter counts are timm's.

The official files have a bias of query and value, which is zero in some of them. timm leaves it out, and has it in the
models whose names end in `qkvb`.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.parts import Rope
from keras_vit.models.variants.rows import ParameterCounts, Variant

_DINOV3 = {
    "positions": "none", "rope": Rope(100.0, coordinates="centers", pairs="halves"), "registers": 4,
    "layer_scale": 1e-5, "activation": "gelu", "layer_norm_epsilon": 1e-5, "image_size": 256,
}  # fmt: skip
_GATED = {**_DINOV3, "gated_mlp": True, "activation": "silu"}

S16 = replace(
    vit.S16, name="DINOv3_S16", paper_name="DINOv3-S/16", timm_name="vit_small_patch16_dinov3", **_DINOV3,
    qkv_bias="none",
    parameters=ParameterCounts(21_586_944, 21_971_944, 29_996_499),
)  # fmt: skip
S16_PLUS = replace(
    vit.S16, name="DINOv3_S16_plus", paper_name="DINOv3-S+/16", timm_name="vit_small_plus_patch16_dinov3", **_GATED,
    qkv_bias="none",
    parameters=ParameterCounts(28_683_264, 29_068_264, 37_092_819),
)  # fmt: skip
B16 = replace(
    vit.B16, name="DINOv3_B16", paper_name="DINOv3-B/16", timm_name="vit_base_patch16_dinov3", **_DINOV3,
    qkv_bias="none",
    parameters=ParameterCounts(85_641_216, 86_410_216, 102_438_483),
)  # fmt: skip
L16 = replace(
    vit.L16, name="DINOv3_L16", paper_name="DINOv3-L/16", timm_name="vit_large_patch16_dinov3", **_DINOV3,
    qkv_bias="none",
    parameters=ParameterCounts(303_079_424, 304_104_424, 325_468_499),
)  # fmt: skip
H16_PLUS = replace(
    vit.L16, name="DINOv3_H16_plus", paper_name="DINOv3-H+/16", timm_name="vit_huge_plus_patch16_dinov3", width=1280,
    depth=32, mlp_dim=5120, num_heads=20, **_GATED, qkv_bias="none",
    parameters=ParameterCounts(840_509_440, 841_790_440, 868_490_323),
)  # fmt: skip
D7B16 = replace(
    vit.L16, name="DINOv3_7B16", paper_name="DINOv3-7B/16", timm_name="vit_7b_patch16_dinov3", width=4096, depth=40,
    mlp_dim=8192, num_heads=32, **_GATED, qkv_bias="none",
    parameters=ParameterCounts(6_716_030_976, 6_720_127_976, 6_805_521_747),
)  # fmt: skip
Ti16_QV = replace(
    vit.Ti16, name="DINOv3_Ti16_qkvb", paper_name="DINOv3-Ti/16 with biases",
    timm_name="vit_tiny_patch16_dinov3_qkvb", **_DINOV3, qkv_bias="qv",
    parameters=ParameterCounts(5_489_664, 5_682_664, 9_705_363),
)  # fmt: skip
S16_QV = replace(
    vit.S16, name="DINOv3_S16_qkvb", paper_name="DINOv3-S/16 with biases", timm_name="vit_small_patch16_dinov3_qkvb",
    **_DINOV3, qkv_bias="qv",
    parameters=ParameterCounts(21_596_160, 21_981_160, 30_005_715),
)  # fmt: skip
B16_QV = replace(
    vit.B16, name="DINOv3_B16_qkvb", paper_name="DINOv3-B/16 with biases", timm_name="vit_base_patch16_dinov3_qkvb",
    **_DINOV3, qkv_bias="qv",
    parameters=ParameterCounts(85_659_648, 86_428_648, 102_456_915),
)  # fmt: skip
L16_QV = replace(
    vit.L16, name="DINOv3_L16_qkvb", paper_name="DINOv3-L/16 with biases", timm_name="vit_large_patch16_dinov3_qkvb",
    **_DINOV3, qkv_bias="qv",
    parameters=ParameterCounts(303_128_576, 304_153_576, 325_517_651),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (S16, S16_PLUS, B16, L16, H16_PLUS, D7B16, Ti16_QV, S16_QV, B16_QV, L16_QV)
