"""The BiT ResNets, the convolutional baseline (arXiv 1912.11370)."""

from keras_vit.models.variants.rows import BiTVariant, ParameterCounts


def _bit(depth: int, width: int, units: tuple[int, ...], counts: tuple[int, ...], released: bool) -> BiTVariant:
    size = f"{depth}x{width}"
    timm_name = f"resnetv2_{size}_bit" if released else None
    return BiTVariant(f"BiT_R{size}", units, width, 224, f"ResNet{size}", timm_name, ParameterCounts(*counts))


R50x1 = _bit(50, 1, (3, 4, 6, 3), (23_500_352, 25_549_352, 68_256_659), True)
R50x2 = _bit(50, 2, (3, 4, 6, 3), (93_891_712, 97_988_712, 183_382_483), False)
R50x3 = _bit(50, 3, (3, 4, 6, 3), (211_174_080, 217_319_080, 345_399_315), True)
R101x1 = _bit(101, 1, (3, 4, 23, 3), (42_492_480, 44_541_480, 87_248_787), True)
R101x3 = _bit(101, 3, (3, 4, 23, 3), (381_789_888, 387_934_888, 516_015_123), True)
R152x1 = _bit(152, 1, (3, 8, 36, 3), (58_136_128, 60_185_128, 102_892_435), False)
R152x2 = _bit(152, 2, (3, 8, 36, 3), (232_238_208, 236_335_208, 321_728_979), True)
R152x4 = _bit(152, 4, (3, 8, 36, 3), (928_340_224, 936_533_224, 1_107_299_923), True)
R200x3 = _bit(200, 3, (3, 24, 36, 3), (562_488_000, 568_633_000, 696_713_235), False)

ROWS = (R50x1, R50x2, R50x3, R101x1, R101x3, R152x1, R152x2, R152x4, R200x3)
