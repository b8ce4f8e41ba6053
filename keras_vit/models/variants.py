"""The table of models: one row each, with the parameter counts of the official code.

A new model is one row here; its builder, the table in docs/zoo.md, `keras-vit list` and the tests read the rows.
"""

import difflib
import fnmatch
import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ParameterCounts:
    """Published numbers of parameters at 224 x 224 pixels with a class token, where there can be one."""

    headless: int
    classes_1000: int
    classes_21843: int
    classes_21843_representation: int | None = None  # with a representation layer as wide as the model


@dataclass(frozen=True)
class ResNetStem:
    """The ResNet in front of a hybrid's patches (section 4.1).

    Args:
        units: number of units of each stage; () is the first convolution and pooling alone.
        width_factor: multiplies the channels, of which the first convolution has 64.
        group_norm_epsilon: 1e-6 in the official code, 1e-5 in timm.
        weight_epsilon: of the weight standardisation; 1e-5 in the official code, 1e-8 in timm.
        weight_epsilon_on: what it is added to, `std` (official) or `variance` (timm).
    """

    units: tuple[int, ...]
    width_factor: float = 1.0
    group_norm_epsilon: float = 1e-6
    weight_epsilon: float = 1e-5
    weight_epsilon_on: str = "std"

    @property
    def stride(self) -> int:
        """Pixels of the image under one cell of the stem's map."""
        return 4 * 2 ** max(len(self.units) - 1, 0)


@dataclass(frozen=True)
class Variant:
    """One architecture.

    Args:
        name: of the builder and the Keras model.
        width: D, the size of a token.
        depth: number of encoder blocks.
        mlp_dim: width between the MLP's two dense layers.
        num_heads: attention heads; must divide the width.
        patch_size: pixels of a patch (cells of the stem's map in a hybrid), one int or (height, width).
        stem: the ResNet in front of the patches; None for a plain ViT.
        positions: `learned` (or `1d`: the paper's, an embedding for each place in the sequence), `2d` (one of the
            column beside one of the row), `relative` (in the attention of every block), `none` (appendix D.4), or
            `sincos2d`: fixed sines and cosines (arXiv 2205.01580).
        positions_at: where they are added: `stem` (once, in front of the blocks), `layers` (in front of every block,
            each with embeddings of its own), or `shared` (in front of every block, the same ones; Table 8).
        mlp_kernel_size: patches along a side of the depth-wise convolution between the MLP's dense layers (LocalViT,
            arXiv 2104.05707), odd; 0 for none, as in the paper.
        axial: whether a block attends along the rows of the grid and then along its columns (appendix D.6), in place
            of to all patches at once; there is no class token then.
        image_size: side in pixels that the model is built for where no `input_shape` is given.
        paper_name: as in the papers' tables, `ViT-B/16`.
        timm_name: the same architecture in timm, without its image size.
        parameters: published counts.
    """

    name: str
    width: int
    depth: int
    mlp_dim: int
    num_heads: int
    patch_size: int | tuple[int, int]
    stem: ResNetStem | None = None
    positions: str = "learned"
    positions_at: str = "stem"
    mlp_kernel_size: int = 0
    axial: bool = False
    image_size: int = 224
    paper_name: str | None = None
    timm_name: str | None = None
    parameters: ParameterCounts | None = None


@dataclass(frozen=True)
class BiTVariant:
    """One BiT ResNet-v2, the papers' convolutional baseline.

    Args:
        name: of the builder and the Keras model.
        units: number of units of each stage.
        width_factor: multiplies the channels, of which the first convolution has 64.
        image_size: side in pixels that the model is built for where no `input_shape` is given.
        paper_name: as in the papers' tables, `ResNet50x1`.
        timm_name: the same architecture in timm.
        parameters: published counts.
        weight_epsilon: added to the variance in the weight standardisation; 1e-10 in the official code, 1e-8 in timm
            and transformers.
        axial: whether axial attention stands in place of the 3 x 3 convolutions (arXiv 2010.11929, appendix D.6); such
            a model is built for one image size.
    """

    name: str
    units: tuple[int, ...]
    width_factor: float = 1
    image_size: int = 224
    paper_name: str | None = None
    timm_name: str | None = None
    parameters: ParameterCounts | None = None
    weight_epsilon: float = 1e-10
    axial: bool = False


Ti16 = Variant(
    "ViT_Ti16", 192, 12, 768, 3, 16, paper_name="ViT-Ti/16", timm_name="vit_tiny_patch16",
    parameters=ParameterCounts(5_524_416, 5_717_416, 9_740_115, 9_777_171),
)  # fmt: skip
S16 = Variant(
    "ViT_S16", 384, 12, 1536, 6, 16, paper_name="ViT-S/16", timm_name="vit_small_patch16",
    parameters=ParameterCounts(21_665_664, 22_050_664, 30_075_219, 30_223_059),
)  # fmt: skip
S32 = replace(
    S16, name="ViT_S32", patch_size=32, paper_name="ViT-S/32", timm_name="vit_small_patch32",
    parameters=ParameterCounts(22_493_952, 22_878_952, 30_903_507, 31_051_347),
)  # fmt: skip
S8 = replace(  # not in the official code: counts by its closed form, which timm's model confirms
    S16, name="ViT_S8", patch_size=8, paper_name="ViT-S/8", timm_name="vit_small_patch8",
    parameters=ParameterCounts(21_670_272, 22_055_272, 30_079_827, 30_227_667),
)  # fmt: skip
B16 = Variant(
    "ViT_B16", 768, 12, 3072, 12, 16, paper_name="ViT-B/16", timm_name="vit_base_patch16",
    parameters=ParameterCounts(85_798_656, 86_567_656, 102_595_923, 103_186_515),
)  # fmt: skip
B32 = replace(
    B16, name="ViT_B32", patch_size=32, paper_name="ViT-B/32", timm_name="vit_base_patch32",
    parameters=ParameterCounts(87_455_232, 88_224_232, 104_252_499, 104_843_091),
)  # fmt: skip
B8 = replace(
    B16, name="ViT_B8", patch_size=8, paper_name="ViT-B/8", timm_name="vit_base_patch8",
    parameters=ParameterCounts(85_807_872, 86_576_872, 102_605_139, 103_195_731),
)  # fmt: skip
L16 = Variant(
    "ViT_L16", 1024, 24, 4096, 16, 16, paper_name="ViT-L/16", timm_name="vit_large_patch16",
    parameters=ParameterCounts(303_301_632, 304_326_632, 325_690_707, 326_740_307),
)  # fmt: skip
L32 = replace(
    L16, name="ViT_L32", patch_size=32, paper_name="ViT-L/32", timm_name="vit_large_patch32",
    parameters=ParameterCounts(305_510_400, 306_535_400, 327_899_475, 328_949_075),
)  # fmt: skip
H14 = Variant(
    "ViT_H14", 1280, 32, 5120, 16, 14, paper_name="ViT-H/14", timm_name="vit_huge_patch14",
    parameters=ParameterCounts(630_764_800, 632_045_800, 658_745_683, 660_385_363),
)  # fmt: skip
H16 = replace(
    H14, name="ViT_H16", patch_size=16, paper_name="ViT-H/16", timm_name=None,
    parameters=ParameterCounts(630_918_400, 632_199_400, 658_899_283, 660_538_963),
)  # fmt: skip
g14 = Variant(
    "ViT_g14", 1408, 40, 6144, 16, 14, paper_name="ViT-g/14", timm_name="vit_giant_patch14",
    parameters=ParameterCounts(1_011_202_432, 1_012_611_432, 1_041_979_219, 1_043_963_091),
)  # fmt: skip
G14 = Variant(
    "ViT_G14", 1664, 48, 8192, 16, 14, paper_name="ViT-G/14", timm_name="vit_gigantic_patch14",
    parameters=ParameterCounts(1_842_775_680, 1_844_440_680, 1_879_144_275, 1_881_914_835),
)  # fmt: skip

# Axial rows: counts by the closed form, two blocks for every one; without a class token.
AXIAL_B16 = replace(
    B16, name="AxialViT_B16", axial=True, paper_name="Axial-ViT-B/16", timm_name=None,
    parameters=ParameterCounts(170_851_584, 171_620_584, 187_648_851, 188_239_443),
)  # fmt: skip
AXIAL_B32 = replace(
    B32, name="AxialViT_B32", axial=True, paper_name="Axial-ViT-B/32", timm_name=None,
    parameters=ParameterCounts(172_508_160, 173_277_160, 189_305_427, 189_896_019),
)  # fmt: skip

R_Ti16 = replace(
    Ti16, name="R_ViT_Ti16", patch_size=8, stem=ResNetStem(()), paper_name="R+ViT-Ti/16",
    timm_name="vit_tiny_r_s16_p8", parameters=ParameterCounts(6_144_704, 6_337_704, 10_360_403, 10_397_459),
)  # fmt: skip
R26_S32 = replace(
    S32, name="R26_ViT_S32", patch_size=1, stem=ResNetStem((2, 2, 2, 2)), paper_name="R26+ViT-S/32",
    timm_name="vit_small_r26_s32", parameters=ParameterCounts(36_046_912, 36_431_912, 44_456_467, 44_604_307),
)  # fmt: skip
R26_B32 = replace(
    B32, name="R26_ViT_B32", patch_size=1, stem=ResNetStem((2, 2, 2, 2)), paper_name="R26+ViT-B/32",
    timm_name="vit_base_r26_s32", parameters=ParameterCounts(100_614_976, 101_383_976, 117_412_243, 118_002_835),
)  # fmt: skip
R50_B16 = replace(
    B16, name="R50_ViT_B16", patch_size=1, stem=ResNetStem((3, 4, 9)), paper_name="R50+ViT-B/16",
    timm_name="vit_base_r50_s16", parameters=ParameterCounts(97_890_112, 98_659_112, 114_687_379, 115_277_971),
)  # fmt: skip
R50_B32 = replace(
    B32, name="R50_ViT_B32", patch_size=1, stem=ResNetStem((3, 4, 6, 3)), paper_name="R50+ViT-B/32",
    timm_name=None, parameters=ParameterCounts(110_176_832, 110_945_832, 126_974_099, 127_564_691),
)  # fmt: skip
R50_L16 = replace(
    L16, name="R50_ViT_L16", patch_size=1, stem=ResNetStem((3, 4, 9)), paper_name="R50+ViT-L/16",
    timm_name=None, parameters=ParameterCounts(315_458_624, 316_483_624, 337_847_699, 338_897_299),
)  # fmt: skip
R50_L32 = replace(
    L32, name="R50_ViT_L32", patch_size=1, stem=ResNetStem((3, 4, 6, 3)), paper_name="R50+ViT-L/32",
    timm_name="vit_large_r50_s32", parameters=ParameterCounts(327_969_856, 328_994_856, 350_358_931, 351_408_531),
)  # fmt: skip

VARIANTS = (
    Ti16, S32, S16, S8, B32, B16, B8, L32, L16, H16, H14, g14, G14,
    AXIAL_B16, AXIAL_B32, R_Ti16, R26_S32, R26_B32, R50_B16, R50_B32, R50_L16, R50_L32,
)  # fmt: skip


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

AXIAL_R50 = replace(  # counts by the closed form
    R50x1, name="AxialResNet_R50x1", axial=True, paper_name="AxialResNet50", timm_name=None,
    parameters=ParameterCounts(22_537_920, 24_586_920, 67_294_227),
)  # fmt: skip

BIT_VARIANTS = (R50x1, R50x2, R50x3, R101x1, R101x3, R152x1, R152x2, R152x4, R200x3, AXIAL_R50)
_ROWS = VARIANTS + BIT_VARIANTS


def list_models(glob: str = "*") -> list[str]:
    """Names of the models that match a shell pattern, `list_models("ViT_B*")`."""
    return [row.name for row in _ROWS if fnmatch.fnmatchcase(row.name, glob)]


def names_of(row: Variant | BiTVariant) -> list[str]:
    """What a row is called: here, in the paper, in timm, and in the names of the official files."""
    names = [row.name, row.paper_name, row.timm_name]
    if row.paper_name:
        official = row.paper_name.replace("/", "_")  # R50+ViT-B_16
        names += [official, official.replace("+ViT-", "_").removeprefix("ViT-")]  # augreg's R50_B_16
    if isinstance(row, BiTVariant):
        names.append(row.name.replace("BiT_", "BiT-"))
    return list(dict.fromkeys(name for name in names if name))


def find_variant(name: str) -> tuple[Variant | BiTVariant, str | None]:
    """The row a name means, and the weights tag in it.

    Args:
        name: the builder's (`ViT_B16`), the paper's (`ViT-B/16`) or timm's (`vit_base_patch16_224`, whose last
            number is the image size), optionally with a tag behind a dot.

    Raises:
        ValueError: no row has this name; the message holds the three nearest ones.
    """
    model, _, tag = name.partition(".")
    for row in _ROWS:
        if model in names_of(row):
            return row, tag or None
        sized = row.timm_name and re.fullmatch(re.escape(row.timm_name) + r"_(\d+)", model)
        if sized:
            return replace(row, image_size=int(sized[1])), tag or None
    known = [known for row in _ROWS for known in names_of(row)]
    nearest = difflib.get_close_matches(model, known, n=3, cutoff=0)
    raise ValueError(
        f"name expected a model of list_models(), received {name!r}; the nearest are {', '.join(nearest)}."
    )
