"""Models with axial attention (arXiv 2010.11929, appendix D.6). Their parameter counts come from the closed form."""

from dataclasses import replace

from keras_vit.models.variants.bit import R50x1
from keras_vit.models.variants.rows import ParameterCounts
from keras_vit.models.variants.vit import B16, B32

# An axial block is two encoder blocks. There is no class token.
AXIAL_B16 = replace(
    B16, name="AxialViT_B16", axial=True, pooling="gap", paper_name="Axial-ViT-B/16", timm_name=None,
    parameters=ParameterCounts(170_851_584, 171_620_584, 187_648_851, 188_239_443),
)  # fmt: skip
AXIAL_B32 = replace(
    B32, name="AxialViT_B32", axial=True, pooling="gap", paper_name="Axial-ViT-B/32", timm_name=None,
    parameters=ParameterCounts(172_508_160, 173_277_160, 189_305_427, 189_896_019),
)  # fmt: skip
AXIAL_R50 = replace(
    R50x1, name="AxialResNet_R50x1", axial=True, paper_name="AxialResNet50", timm_name=None,
    parameters=ParameterCounts(22_537_920, 24_586_920, 67_294_227),
)  # fmt: skip

ROWS = (AXIAL_B16, AXIAL_B32, AXIAL_R50)
