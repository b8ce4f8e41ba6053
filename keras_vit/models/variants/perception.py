"""The Perception Encoder (arXiv 2504.13181): PE-Spatial and PE-Lang, without a final norm.

Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Rope, Variant

_PE = {
    "rope": Rope(reference_grid=(32, 32), offset=1.0, order="xy"), "pre_norm": True, "patch_bias": False,
    "final_norm": False, "activation": "gelu", "layer_norm_epsilon": 1e-5, "class_token": True, "pooling": "gap",
}  # fmt: skip
_GIGANTIC = {**_PE, "rope": Rope(reference_grid=(32, 32), order="xy"), "class_token": False}

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

ROWS: tuple[Variant, ...] = (SPATIAL_Ti16, SPATIAL_S16, SPATIAL_B16, SPATIAL_L14, SPATIAL_G14, LANG_L14, LANG_G14)
