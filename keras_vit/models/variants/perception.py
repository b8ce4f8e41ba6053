"""The Perception Encoder (arXiv 2504.13181): PE-Core, and PE-Spatial and PE-Lang without a final norm.

Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.parts import Rope
from keras_vit.models.variants.rows import ParameterCounts, Variant

_COMMON = {
    "pre_norm": True, "patch_bias": False, "activation": "gelu", "layer_norm_epsilon": 1e-5, "class_token": True,
}  # fmt: skip
_CORE = {**_COMMON, "pooling": "map", "pooling_heads": 8}
_PE = {
    **_COMMON, "rope": Rope(reference_grid=(32, 32), offset=1.0, order="xy"), "final_norm": False, "pooling": "gap",
}  # fmt: skip
_GIGANTIC = {**_PE, "rope": Rope(reference_grid=(32, 32), order="xy"), "class_token": False}

CORE_Ti16 = replace(
    vit.Ti16, name="PE_Core_Ti16", paper_name="PE-Core-Ti/16", timm_name="vit_pe_core_tiny_patch16", image_size=384,
    rope=Rope(reference_grid=(24, 24), offset=1.0, order="xy"), **_CORE,
    parameters=ParameterCounts(6_042_240, 6_235_240, 10_257_939),
)  # fmt: skip
CORE_S16 = replace(
    vit.S16, name="PE_Core_S16", paper_name="PE-Core-S/16", timm_name="vit_pe_core_small_patch16", image_size=384,
    rope=Rope(reference_grid=(24, 24), offset=1.0, order="xy"), **_CORE,
    parameters=ParameterCounts(23_586_048, 23_971_048, 31_995_603),
)  # fmt: skip
CORE_B16 = replace(
    vit.B16, name="PE_Core_B16", paper_name="PE-Core-B/16", timm_name="vit_pe_core_base_patch16", image_size=224,
    rope=Rope(reference_grid=(14, 14), offset=1.0, order="xy"), **_CORE,
    parameters=ParameterCounts(92_886_528, 93_655_528, 109_683_795),
)  # fmt: skip
CORE_L14 = replace(
    vit.L16, name="PE_Core_L14", paper_name="PE-Core-L/14", timm_name="vit_pe_core_large_patch14", patch_size=14,
    image_size=336, rope=Rope(reference_grid=(24, 24), offset=1.0, order="xy"), **_CORE,
    parameters=ParameterCounts(316_102_656, 317_127_656, 338_491_731),
)  # fmt: skip
CORE_G14 = replace(
    vit.L16, name="PE_Core_G14", paper_name="PE-Core-G/14", timm_name="vit_pe_core_gigantic_patch14", width=1536,
    depth=50, mlp_dim=8960, patch_size=14, image_size=448, rope=Rope(reference_grid=(32, 32), order="xy"),
    pooling_mlp_dim=6144, **{**_CORE, "class_token": False},
    parameters=ParameterCounts(1_880_066_560, 1_881_603_560, 1_913_639_251),
)  # fmt: skip
SPATIAL_Ti16 = replace(
    vit.Ti16, name="PE_Spatial_Ti16", paper_name="PE-Spatial-Ti/16", timm_name="vit_pe_spatial_tiny_patch16",
    image_size=512, **_PE,
    parameters=ParameterCounts(5_683_200, 5_876_200, 9_898_899),
)  # fmt: skip
SPATIAL_S16 = replace(
    vit.S16, name="PE_Spatial_S16", paper_name="PE-Spatial-S/16", timm_name="vit_pe_spatial_small_patch16",
    image_size=512, **_PE,
    parameters=ParameterCounts(21_983_232, 22_368_232, 30_392_787),
)  # fmt: skip
SPATIAL_B16 = replace(
    vit.B16, name="PE_Spatial_B16", paper_name="PE-Spatial-B/16", timm_name="vit_pe_spatial_base_patch16",
    image_size=512, **_PE,
    parameters=ParameterCounts(86_433_792, 87_202_792, 103_231_059),
)  # fmt: skip
SPATIAL_L14 = replace(
    vit.L16, name="PE_Spatial_L14", paper_name="PE-Spatial-L/14", timm_name="vit_pe_spatial_large_patch14",
    patch_size=14, image_size=448, **_PE,
    parameters=ParameterCounts(303_964_160, 304_989_160, 326_353_235),
)  # fmt: skip
SPATIAL_G14 = replace(
    vit.L16, name="PE_Spatial_G14", paper_name="PE-Spatial-G/14", timm_name="vit_pe_spatial_gigantic_patch14",
    width=1536, depth=50, mlp_dim=8960, patch_size=14, image_size=448, **_GIGANTIC, layer_scale=0.1,
    parameters=ParameterCounts(1_851_887_104, 1_853_424_104, 1_885_459_795),
)  # fmt: skip
LANG_L14 = replace(
    vit.L16, name="PE_Lang_L14", paper_name="PE-Lang-L/14", timm_name="vit_pe_lang_large_patch14", depth=23,
    patch_size=14, image_size=448, **_PE, layer_scale=0.1,
    parameters=ParameterCounts(291_415_040, 292_440_040, 313_804_115),
)  # fmt: skip
LANG_G14 = replace(
    vit.L16, name="PE_Lang_G14", paper_name="PE-Lang-G/14", timm_name="vit_pe_lang_gigantic_patch14", width=1536,
    depth=47, mlp_dim=8960, patch_size=14, image_size=448, **_GIGANTIC, layer_scale=0.1,
    parameters=ParameterCounts(1_740_922_624, 1_742_459_624, 1_774_495_315),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (
    CORE_Ti16,
    CORE_S16,
    CORE_B16,
    CORE_L14,
    CORE_G14,
    SPATIAL_Ti16,
    SPATIAL_S16,
    SPATIAL_B16,
    SPATIAL_L14,
    SPATIAL_G14,
    LANG_L14,
    LANG_G14,
)
