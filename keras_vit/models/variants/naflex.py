"""timm's NaFlexViT, trained on images of any size and aspect ratio (NaViT, arXiv 2307.06304; SigLIP 2, 2502.14786).

On images without padding, the models compute what Vision Transformers compute. Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import siglip, vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_GAP = {
    "registers": 4, "layer_scale": 1e-5, "pooling": "gap", "norm_after_pooling": True, "activation": "gelu",
    "image_size": 256,
}  # fmt: skip

B16 = replace(
    vit.B16, name="NaFlex_B16", paper_name="NaFlexViT-B/16", timm_name="naflexvit_base_patch16_gap",
    prefix_positions=False, **_GAP,
    parameters=ParameterCounts(85_864_704, 86_633_704, 102_661_971),
)  # fmt: skip
B16_FACTORIZED = replace(
    vit.B16, name="NaFlex_B16_factorized", paper_name="NaFlexViT-B/16 factorized",
    timm_name="naflexvit_base_patch16_parfac_gap", positions="factorized", **_GAP,
    parameters=ParameterCounts(85_692_672, 86_461_672, 102_489_939),
)  # fmt: skip
SIGLIP_B16 = replace(
    siglip.B16, name="SigLIP2_NaFlex_B16", paper_name="SigLIP2-NaFlex-B/16", timm_name="naflexvit_base_patch16_siglip",
    image_size=256,
    parameters=ParameterCounts(92_930_304, 93_699_304, 109_727_571),
)  # fmt: skip
SIGLIP_SO400M16 = replace(
    siglip.So400m16, name="SigLIP2_NaFlex_So400m16", paper_name="SigLIP2-NaFlex-So400m/16",
    timm_name="naflexvit_so400m_patch16_siglip", image_size=256,
    parameters=ParameterCounts(427_888_064, 429_041_064, 453_073_043),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, B16_FACTORIZED, SIGLIP_B16, SIGLIP_SO400M16)
