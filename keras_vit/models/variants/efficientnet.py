"""The EfficientNets (arXiv 1905.11946). L2 is Noisy Student's, a baseline of the ViT paper (arXiv 1911.04252)."""

from keras_vit.models.variants.rows import EfficientNetVariant, ParameterCounts


def _efficientnet(size: str, width: float, depth: float, image_size: int, *counts: int) -> EfficientNetVariant:
    names = (f"EfficientNet-{size}", f"tf_efficientnet_{size.lower()}")
    return EfficientNetVariant(f"EfficientNet_{size}", width, depth, image_size, *names, ParameterCounts(*counts))


B0 = _efficientnet("B0", 1, 1, 224, 4_007_548, 5_288_548, 31_988_431)
B1 = _efficientnet("B1", 1, 1.1, 240, 6_513_184, 7_794_184, 34_494_067)
B2 = _efficientnet("B2", 1.1, 1.2, 260, 7_700_994, 9_109_994, 38_477_781)
B3 = _efficientnet("B3", 1.2, 1.4, 300, 10_696_232, 12_233_232, 44_268_923)
B4 = _efficientnet("B4", 1.4, 1.8, 380, 17_548_616, 19_341_616, 56_713_115)
B5 = _efficientnet("B5", 1.6, 2.2, 456, 28_340_784, 30_389_784, 73_097_091)
B6 = _efficientnet("B6", 1.8, 2.6, 528, 40_735_704, 43_040_704, 91_083_819)
B7 = _efficientnet("B7", 2, 3.1, 600, 63_786_960, 66_347_960, 119_726_883)
L2 = _efficientnet("L2", 4.3, 5.3, 800, 474_804_308, 480_309_308, 595_050_023)

ROWS = (B0, B1, B2, B3, B4, B5, B6, B7, L2)
