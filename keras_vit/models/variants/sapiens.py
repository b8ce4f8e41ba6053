"""Sapiens2 (arXiv 2604.21681): RMSNorm, rotary positions, SwiGLU, norms of query and key, and eight register tokens.

The middle blocks of the larger models have grouped queries. The models were trained on images of 1024 x 768 pixels.
Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.parts import Rope
from keras_vit.models.variants.rows import ParameterCounts, Variant

_SAPIENS = {
    "positions": "none", "rope": Rope(100.0, coordinates="centers", pairs="halves"), "norm": "rms", "qk_norm": True,
    "gated_mlp": True, "activation": "silu", "block": "attention_scale", "layer_scale": 1.0, "registers": 8,
    "image_size": 1024,
}  # fmt: skip
_GROUPED = {**_SAPIENS, "heads_per_key": 2, "full_attention_blocks": 8}

B16 = replace(
    vit.B16, name="Sapiens2_B16", paper_name="Sapiens2-0.1B", timm_name="vit_base_patch16_sapiens2", **_SAPIENS,
    parameters=ParameterCounts(113_993_472, 114_762_472, 130_790_739),
)  # fmt: skip
L16 = replace(
    vit.L16, name="Sapiens2_L16", paper_name="Sapiens2-0.4B", timm_name="vit_large_patch16_sapiens2", **_GROUPED,
    parameters=ParameterCounts(395_450_368, 396_475_368, 417_839_443),
)  # fmt: skip
H16 = replace(
    vit.H16, name="Sapiens2_H16", paper_name="Sapiens2-0.8B", timm_name="vit_huge_patch16_sapiens2", **_GROUPED,
    parameters=ParameterCounts(814_283_520, 815_564_520, 842_264_403),
)  # fmt: skip
G16 = replace(
    vit.L16, name="Sapiens2_g16", paper_name="Sapiens2-1B", timm_name="vit_giant_patch16_sapiens2",
    width=1536, depth=40, mlp_dim=6144, num_heads=24, **_GROUPED,
    parameters=ParameterCounts(1_455_474_176, 1_457_011_176, 1_489_046_867),
)  # fmt: skip
FIVE_B16 = replace(
    vit.L16, name="Sapiens2_5B16", paper_name="Sapiens2-5B", timm_name="vit_5b_patch16_sapiens2",
    width=2432, depth=56, mlp_dim=9728, num_heads=32, **_GROUPED,
    parameters=ParameterCounts(5_066_902_976, 5_069_335_976, 5_120_046_995),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, L16, H16, G16, FIVE_B16)
