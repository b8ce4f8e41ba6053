"""The BiT ResNets, the convolutional baseline (arXiv 1912.11370), and timm's ResNets of the same units.

The latter have plain convolutions, and batch norms (arXiv 1603.05027), group norms or EvoNorms (arXiv 2004.02967).
Those with a `d` have a deep stem (arXiv 1812.01187). The moving averages of batch norms are not counted.
"""

from dataclasses import replace

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

_PLAIN = BiTVariant(
    "ResNetV2_50", (3, 4, 6, 3), 1, 224, "ResNet-v2-50", "resnetv2_50", norm="batch", standardized=False,
    parameters=ParameterCounts(23_500_352, 25_549_352, 68_256_659),
)  # fmt: skip


def _plain(depth: str, counts: tuple[int, ...], **fields) -> BiTVariant:
    names = {"name": f"ResNetV2_{depth}", "paper_name": f"ResNet-v2-{depth}", "timm_name": f"resnetv2_{depth}"}
    return replace(_PLAIN, **names, parameters=ParameterCounts(*counts), **fields)


_BASIC, _BASIC_34 = {"units": (2, 2, 2, 2), "basic": True}, {"basic": True}
V2_18 = _plain("18", (11_174_720, 11_687_720, 22_380_179), **_BASIC)
V2_18d = _plain("18d", (11_193_952, 11_706_952, 22_399_411), **_BASIC, deep_stem=True)
V2_34 = _plain("34", (21_282_880, 21_795_880, 32_488_339), **_BASIC_34)
V2_34d = _plain("34d", (21_302_112, 21_815_112, 32_507_571), **_BASIC_34, deep_stem=True)
V2_50 = _PLAIN
V2_101 = _plain("101", (42_492_480, 44_541_480, 87_248_787), units=(3, 4, 23, 3))
V2_50d_gn = _plain("50d_gn", (23_519_584, 25_568_584, 68_275_891), norm="group", deep_stem=True)
V2_50d_evos = _plain("50d_evos", (23_542_368, 25_591_368, 68_298_675), norm="evo", deep_stem=True)

ROWS = (
    *(R50x1, R50x2, R50x3, R101x1, R101x3, R152x1, R152x2, R152x4, R200x3),
    *(V2_18, V2_18d, V2_34, V2_34d, V2_50, V2_101, V2_50d_gn, V2_50d_evos),
)
