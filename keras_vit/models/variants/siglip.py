"""The image towers of SigLIP (arXiv 2303.15343) and SigLIP 2 (arXiv 2502.14786). Parameter counts are timm's.

The vector that attention pooling returns is the image's embedding. timm states exact GELU for SigLIP's B/16, L/16 and
So400m/14, and the tanh approximation for the others. big_vision, where the models come from, has
the tanh approximation.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_SIGLIP = {"pooling": "map"}

B16 = replace(
    vit.B16, name="SigLIP_B16", paper_name="SigLIP-B/16",
    timm_name="vit_base_patch16_siglip", activation="gelu", **_SIGLIP,
    parameters=ParameterCounts(92_884_224, 93_653_224, 109_681_491),
)  # fmt: skip
B32 = replace(
    vit.B32, name="SigLIP_B32", paper_name="SigLIP-B/32",
    timm_name="vit_base_patch32_siglip", image_size=256, **_SIGLIP,
    parameters=ParameterCounts(94_552_320, 95_321_320, 111_349_587),
)  # fmt: skip
L16 = replace(
    vit.L16, name="SigLIP_L16", paper_name="SigLIP-L/16",
    timm_name="vit_large_patch16_siglip", activation="gelu", image_size=256, **_SIGLIP,
    parameters=ParameterCounts(315_956_224, 316_981_224, 338_345_299),
)  # fmt: skip
So400m14 = replace(
    vit.B16, name="SigLIP_So400m14", paper_name="SigLIP-So400m/14",
    timm_name="vit_so400m_patch14_siglip", width=1152, depth=27, mlp_dim=4304, num_heads=16, patch_size=14,
    activation="gelu", **_SIGLIP,
    parameters=ParameterCounts(427_680_704, 428_833_704, 452_865_683),
)  # fmt: skip
So400m16 = replace(
    vit.B16, name="SigLIP_So400m16", paper_name="SigLIP-So400m/16",
    timm_name="vit_so400m_patch16_siglip", width=1152, depth=27, mlp_dim=4304, num_heads=16, 
    image_size=256, **_SIGLIP,
    parameters=ParameterCounts(427_888_064, 429_041_064, 453_073_043),
)  # fmt: skip
g16 = replace(
    vit.B16, name="SigLIP_g16", paper_name="SigLIP-g-opt/16",
    timm_name="vit_giantopt_patch16_siglip", width=1536, depth=40, mlp_dim=6144, num_heads=16,
    image_size=256, **_SIGLIP,
    parameters=ParameterCounts(1_163_168_256, 1_164_705_256, 1_196_740_947),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (B16, B32, L16, So400m14, So400m16, g16)
