"""Every layer and a tiny row of every kind, as models to run the contract on.

A layer or kind that is missing here fails `test_every_layer_is_covered`.
"""

from dataclasses import asdict, dataclass, field, replace

import keras
import pytest

import keras_vit
from keras_vit import layers


@dataclass(frozen=True)
class Case:
    """One layer with the shapes of its inputs, or the options of one tiny model."""

    name: str
    layer: type | None = None
    arguments: dict = field(default_factory=dict)
    shapes: tuple = ((8, 8, 3),)
    static_size: bool = True  # whether the image size is known, as TFLite and XLA need it

    def make(self, dtype=None, batch_size=None) -> keras.Model:
        inputs = [keras.Input(shape, batch_size=batch_size) for shape in self.shapes]
        if self.layer is not None:
            return keras.Model(inputs if len(inputs) > 1 else inputs[0], self.make_layer(dtype)(*inputs))
        options = {"classes": 5, "input_tensor": inputs[0], **self.arguments}
        row = options.pop("variant", TINY)
        return keras_vit.build(row, dtype=dtype, **options)

    def make_layer(self, dtype=None) -> keras.layers.Layer:
        return self.layer(**self.arguments, dtype=dtype)


TINY = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
HYBRID = replace(TINY, patch_size=1, stem=keras_vit.ResNetStem((1, 1), 0.5))
STEM_ONLY = replace(TINY, patch_size=2, stem=keras_vit.ResNetStem((), 0.5))
CONV_STEM = replace(TINY, patch_size=2, stem=keras_vit.ConvStem((8, 12), (2, 3)), prefix_positions=False)
LOCAL = replace(TINY, mlp_kernel_size=3)
AXIAL = replace(TINY, axial=True, positions="none")
REGISTERS = replace(TINY, registers=2, layer_scale=0.5, prefix_positions=False, activation="gelu")
CLIP = replace(TINY, pre_norm=True, patch_bias=False, activation="quick_gelu", layer_norm_epsilon=1e-5)
ROPE = replace(TINY, rope=keras_vit.Rope(coordinates="centers", pairs="halves"), qkv_bias="qv", positions="none")
BEIT = replace(TINY, relative_bias="table", qkv_bias="qv", positions="none")
LEARNED_ROPE = replace(TINY, rope=keras_vit.Rope(10.0, learned=True, order="xy"), qkv_bias="none", registers=2)
GATED = replace(
    TINY, gated_mlp=True, mlp_inner_norm=True, attention_inner_norm=True, activation="silu", patch_norm=True
)
RMS = replace(TINY, norm="rms", dense_bias=False, gated_mlp=True, activation="silu", patch_norm=True)
DISTILLED = replace(TINY, distillation_token=True)
POOLED = replace(TINY, registers=2, pool_prefix=False, mlp_inner_norm=True)
POST_NORM = replace(TINY, block="post_norm", heads_per_key=2, qk_norm=True)
PARALLEL = replace(TINY, block="parallel", differential_attention=True, attention_out_bias=False, layer_scale=0.5)
SHARED_BIAS = replace(TINY, relative_bias="shared_mlp", positions="none", block="attention_scale", layer_scale=0.5)
WINDOWS = replace(
    TINY, window=2, global_blocks=(1,), relative_bias="decomposed", neck=8, activation="gelu", positions="learned"
)
FACTORIZED = replace(TINY, positions="factorized", registers=2)
BIT = keras_vit.BiTVariant("tiny_bit", units=(1, 1), width_factor=0.5)
EFFICIENTNET = keras_vit.EfficientNetVariant("tiny_efficientnet", 0.25, 0.1)
AXIAL_BIT = replace(BIT, axial=True)
BATCH_NORM = replace(BIT, norm="batch", standardized=False, basic=True)
EVO_NORM = replace(BIT, norm="evo", standardized=False, deep_stem=True, width_factor=1)
TOKENS = ((6, 16),)
BLOCK = {"num_heads": 2, "mlp_dim": 24}
DROPS = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "drop_path_rate": 0.2}

LAYERS = (
    Case("PatchExtraction", layers.PatchExtraction, {"patch_size": (2, 4)}),
    Case("PatchEmbedding", layers.PatchEmbedding, {"width": 16, "patch_size": (2, 4)}, ((9, 10, 3),)),
    Case(
        "PatchEmbedding_without_bias",
        layers.PatchEmbedding,
        {"width": 16, "patch_size": 4, "use_bias": False},
        ((8, 8, 3),),
    ),
    Case("GridToTokens", layers.GridToTokens, shapes=((2, 3, 16),)),
    Case("TokensToGrid", layers.TokensToGrid, {"prefix_tokens": 1}, ((7, 16), (2, 3, 5))),
    Case("ClassToken", layers.ClassToken, shapes=TOKENS),
    Case("RegisterTokens", layers.RegisterTokens, {"count": 3}, TOKENS),
    Case("Prompts", layers.Prompts, {"count": 3}, TOKENS),
    Case("Prompts_replaced", layers.Prompts, {"count": 2, "prefix_tokens": 2, "replace": True}, TOKENS),
    Case("DistillationToken", layers.DistillationToken, shapes=TOKENS),
    Case("PositionEmbedding", layers.PositionEmbedding, {"grid": (2, 3)}, TOKENS),
    Case(
        "PositionEmbedding_resized",
        layers.PositionEmbedding,
        {"grid": (3, 2), "prefix_tokens": 1},
        ((7, 16), (2, 3, 16)),
    ),
    Case(
        "PositionEmbedding_of_patches",
        layers.PositionEmbedding,
        {"grid": (3, 2), "prefix_tokens": 2, "prefix_positions": False},
        ((8, 16), (2, 3, 16)),
    ),
    Case(
        "PositionEmbedding2D",
        layers.PositionEmbedding2D,
        {"grid": (3, 2), "prefix_tokens": 1},
        ((7, 16), (2, 3, 16)),
    ),
    Case(
        "FactorizedPositions", layers.FactorizedPositions, {"grid": (3, 2), "prefix_tokens": 1}, ((7, 16), (2, 3, 16))
    ),
    Case("NoPositions", layers.NoPositions, {"grid": (2, 3)}, TOKENS),
    Case("SinCosPositions", layers.SinCosPositions, {"grid": (2, 3)}, TOKENS),
    Case("MAEPositions", layers.MAEPositions, {"grid": (2, 3)}, TOKENS),
    Case("SinCosPositions_free", layers.SinCosPositions, {"grid": 1, "prefix_tokens": 1}, ((7, 16), (2, 3, 16))),
    Case(
        "MultiHeadSelfAttention", layers.MultiHeadSelfAttention, {"num_heads": 4, "attention_dropout_rate": 0.1}, TOKENS
    ),
    Case(
        "MultiHeadSelfAttention_relative",
        layers.MultiHeadSelfAttention,
        {"num_heads": 4, "relative_positions": True},
        TOKENS,
    ),
    Case("AttentionWithOptions", layers.AttentionWithOptions, {"num_heads": 4, "qkv_bias": "qv"}, TOKENS),
    Case(
        "AttentionWithOptions_rope",
        layers.AttentionWithOptions,
        {"num_heads": 4, "rope": asdict(LEARNED_ROPE.rope), "grid": (1, 4), "prefix_tokens": 2},
        TOKENS,
    ),
    Case(
        "AttentionWithOptions_bias",
        layers.AttentionWithOptions,
        {"num_heads": 4, "relative_bias": "table", "grid": (1, 5), "prefix_tokens": 1, "inner_norm": "layer"},
        TOKENS,
    ),
    Case(
        "AttentionWithOptions_of_a_grid",
        layers.AttentionWithOptions,
        {"num_heads": 4, "rope": asdict(ROPE.rope), "grid": (1, 1)},
        ((6, 16), (2, 3, 5)),
    ),
    Case(
        "AttentionWithOptions_with_an_inner_norm",
        layers.AttentionWithOptions,
        {"num_heads": 4, "inner_norm": "layer", "layer_norm_epsilon": 1e-5, "out_bias": False},
        TOKENS,
    ),
    Case(
        "AttentionWithOptions_of_grouped_queries",
        layers.AttentionWithOptions,
        {"num_heads": 4, "heads_per_key": 2, "qk_norm": "rms", "rope": asdict(ROPE.rope), "grid": (2, 3)},
        TOKENS,
    ),
    Case(
        "AttentionWithOptions_of_a_difference",
        layers.AttentionWithOptions,
        {"num_heads": 4, "differential": 0.2},
        TOKENS,
    ),
    Case(
        "AttentionWithOptions_of_a_shared_bias",
        layers.AttentionWithOptions,
        {"num_heads": 4, "relative_bias": "shared_mlp", "attention_dropout_rate": 0.1},
        ((6, 16), (4, 6, 6)),
    ),
    Case(
        "AttentionWithOptions_of_padded_sequences",
        layers.AttentionWithOptions,
        {"num_heads": 4, "masked": True, "attention_dropout_rate": 0.1},
        ((6, 16), (1, 1, 6)),
    ),
    Case(
        "AttentionWithOptions_of_windows",
        layers.AttentionWithOptions,
        {"num_heads": 4, "window": 2, "grid": (2, 3), "relative_bias": "decomposed", "attention_dropout_rate": 0.1},
        TOKENS,
    ),
    Case("SharedRelativeBias", layers.SharedRelativeBias, {"num_heads": 2, "grid": (2, 3)}, ((2, 3, 5),)),
    Case("ExtendedMLP", layers.ExtendedMLP, {"mlp_dim": 24, "dropout_rate": 0.1, "inner_norm": "layer"}, TOKENS),
    Case(
        "ExtendedMLP_without_a_gate",
        layers.ExtendedMLP,
        {"mlp_dim": 24, "gated": False, "inner_norm": "rms", "use_bias": False},
        TOKENS,
    ),
    Case(
        "ExtendedMLP_beside_a_bottleneck",
        layers.ExtendedMLP,
        {"mlp_dim": 24, "gated": False, "adapter_dim": 3},
        TOKENS,
    ),
    Case("MLPBlock", layers.MLPBlock, {"mlp_dim": 24, "dropout_rate": 0.1}, TOKENS),
    Case("MLPBlock_local", layers.MLPBlock, {"mlp_dim": 24, "kernel_size": 3}, ((6, 16), (2, 3, 5))),
    Case(
        "MLPBlock_local_beside_a_class_token",
        layers.MLPBlock,
        {"mlp_dim": 24, "kernel_size": 3, "prefix_tokens": 1},
        ((7, 16), (2, 3, 5)),
    ),
    Case("LayerScale", layers.LayerScale, {"initial_value": 0.5}, TOKENS),
    Case("EncoderBlock_scaled", layers.EncoderBlock, {**BLOCK, **DROPS, "layer_scale": 0.5}, TOKENS),
    Case(
        "EncoderBlock_gated",
        layers.EncoderBlock,
        {
            **BLOCK,
            **DROPS,
            "norm": "rms",
            "mlp_options": {"gated": True, "inner_norm": "rms", "use_bias": True},
            "attention_options": {"inner_norm": "rms"},
        },
        TOKENS,
    ),
    Case("RMSNorm", layers.RMSNorm, {"epsilon": 1e-5}, TOKENS),
    Case("LayerNorm", layers.LayerNorm, {"epsilon": 1e-6}, TOKENS),
    Case("StochasticDepth", layers.StochasticDepth, {"rate": 0.5}, TOKENS),
    Case("EncoderBlock", layers.EncoderBlock, {**BLOCK, **DROPS}, TOKENS),
    Case("AttentionScaleBlock", layers.AttentionScaleBlock, {**BLOCK, **DROPS, "layer_scale": 0.5}, TOKENS),
    Case("PostNormBlock", layers.PostNormBlock, {**BLOCK, **DROPS}, TOKENS),
    Case("ParallelBlock", layers.ParallelBlock, {**BLOCK, **DROPS, "layer_scale": 0.5}, TOKENS),
    Case(
        "EncoderBlock_local",
        layers.EncoderBlock,
        {**BLOCK, "mlp_kernel_size": 3, "prefix_tokens": 1},
        ((7, 16), (2, 3, 16)),
    ),
    Case("AxialAttention", layers.AxialAttention, {"num_heads": 2, "strides": 2}, ((4, 6, 16),)),
    Case("AxialBlock", layers.AxialBlock, {**BLOCK, **DROPS, "relative_positions": True}, ((6, 16), (2, 3, 5))),
    Case("PatchCorruption", layers.PatchCorruption, shapes=((6, 16), (6,))),
    Case(
        "PatchPrediction",
        layers.PatchPrediction,
        {"units": 5, "target": "pixels", "prefix_tokens": 1},
        ((7, 16), (3,)),
    ),
    Case("SequenceEmbedding", layers.SequenceEmbedding, {"width": 16, "patch_size": (2, 4)}, ((6, 24),)),
    Case(
        "SequencePositions",
        layers.SequencePositions,
        {"grid": (3, 2), "prefix_tokens": 1, "resize": "timm"},
        ((7, 16), (6, 2), (6,)),
    ),
    Case(
        "SequencePositions_of_patches",
        layers.SequencePositions,
        {"grid": (3, 2), "prefix_tokens": 2, "prefix_positions": False, "resize": "hf"},
        ((8, 16), (6, 2), (6,)),
    ),
    Case(
        "SequenceFactorizedPositions",
        layers.SequenceFactorizedPositions,
        {"grid": (3, 2), "prefix_tokens": 1, "resize": "timm_npz_square"},
        ((7, 16), (6, 2), (6,)),
    ),
    Case("PaddingMask", layers.PaddingMask, {"prefix_tokens": 1}, ((6,),)),
    Case("MaskedMeanPooling", layers.MaskedMeanPooling, {"prefix_tokens": 1}, ((7, 16), (6,))),
    Case("TokenPooling", layers.TokenPooling, shapes=TOKENS),
    Case("DistillationPooling", layers.DistillationPooling, shapes=TOKENS),
    Case("MeanPooling", layers.MeanPooling, shapes=TOKENS),
    Case("AttentionPooling", layers.AttentionPooling, BLOCK, TOKENS),
    Case("AttentionPooling_of_patches", layers.AttentionPooling, {**BLOCK, "prefix_tokens": 2}, TOKENS),
    Case("AttentionPooling_of_padded_sequences", layers.AttentionPooling, BLOCK, ((6, 16), (1, 1, 6))),
    Case("GroupNorm", layers.GroupNorm, {"epsilon": 1e-5, "gamma_initializer": "zeros"}, ((3, 5, 64),)),
    Case("StdConv", layers.StdConv, {"filters": 8, "kernel_size": 3, "strides": 2}, ((6, 7, 4),)),
    Case(
        "StdConv_symmetric",
        layers.StdConv,
        {"filters": 8, "kernel_size": (7, 7), "strides": 2, "padding": "symmetric", "epsilon_on": "variance"},
        ((6, 7, 4),),
    ),
    Case("StemPool", layers.StemPool, shapes=((6, 7, 4),)),
    Case("StemPool_zeros", layers.StemPool, {"padding": "zeros"}, ((6, 7, 4),)),
    Case("ResidualUnit", layers.ResidualUnit, {"filters": 32, "strides": 2}, ((5, 6, 64),)),
    Case("ResidualUnit_identity", layers.ResidualUnit, {"filters": 32}, ((4, 4, 128),)),
    Case("PreActivationUnit", layers.PreActivationUnit, {"filters": 32, "strides": 2}, ((5, 6, 64),)),
    Case(
        "BasicPreActivationUnit",
        layers.BasicPreActivationUnit,
        {"filters": 8, "strides": 2, "norm": "batch", "weight_epsilon_on": "none", "average": True},
        ((5, 6, 4),),
    ),
    Case("BatchNorm", layers.BatchNorm, {"epsilon": 1e-4}, ((3, 5, 8),)),
    Case("EvoNorm", layers.EvoNorm, {"epsilon": 1e-4, "gamma_initializer": "zeros"}, ((3, 5, 64),)),
    Case("StemPool_symmetric", layers.StemPool, {"padding": "symmetric"}, ((6, 7, 4),)),
    Case("ImageConv", layers.ImageConv, {"filters": 8}, ((7, 8, 3),)),
    Case("InvertedResidual", layers.InvertedResidual, {"filters": 8, "drop_path_rate": 0.2}, ((5, 6, 8),)),
    Case(
        "InvertedResidual_strided",
        layers.InvertedResidual,
        {"filters": 8, "kernel_size": 5, "strides": 2, "expansion": 1},
        ((5, 6, 8),),
    ),
    Case("OrdinalHead", layers.OrdinalHead, {"units": 2, "labels": ("a", "b", "c")}, ((16,),)),
    Case(
        "RegressionHead",
        layers.RegressionHead,
        {"units": 2, "mean": (3.0, -1.0), "deviation": (2.0, 0.5), "labels": ("a", "b")},
        ((16,),),
    ),
    Case(
        "Head",
        layers.Head,
        {"units": 3, "labels": ("a", "b", "c"), "bias_constant": -2.0, "temperature": 1.5},
        ((16,),),
    ),
)

MODELS = (
    Case("token"),
    Case("gap", arguments={"pooling": "gap"}),
    Case("map", arguments={"pooling": "map"}),
    Case("representation", arguments={"representation_size": 12}),
    Case("rectangular", arguments={"patch_size": (4, 2)}, shapes=((8, 10, 3),)),
    Case("grey", shapes=((8, 8, 1),)),
    Case("uneven", shapes=((11, 9, 3),)),
    Case("token_sequence", arguments={"include_top": False, "pooling": None}),
    Case("headless", arguments={"include_top": False}),
    Case("logits", arguments={"classifier_activation": None}),
    Case("pixels", arguments={"include_preprocessing": True}),
    Case("gelu", arguments={"activation": "gelu", "layer_norm_epsilon": 1e-12}),
    Case("dropped", arguments=DROPS),
    Case("sincos_of_mae", arguments={"variant": replace(TINY, positions="sincos2d_mae"), "pooling": "gap"}),
    Case("sincos", arguments={"variant": replace(TINY, positions="sincos2d"), "pooling": "gap"}),
    Case("labelled", arguments={"labels": ("a", "b", "c", "d", "e")}),
    Case("registers", arguments={"variant": REGISTERS}),
    Case("registers_gap", arguments={"variant": REGISTERS, "pooling": "gap"}),
    Case("clip", arguments={"variant": CLIP}),
    Case("rope", arguments={"variant": ROPE}, shapes=((8, 12, 3),)),
    Case("rope_learned", arguments={"variant": LEARNED_ROPE, "pooling": "gap"}, shapes=((12, 8, 3),)),
    Case("relative_bias", arguments={"variant": BEIT}, shapes=((8, 12, 3),)),
    Case("relative_bias_mlp", arguments={"variant": replace(BEIT, relative_bias="mlp"), "pooling": "gap"}),
    Case("rope_free_size", arguments={"variant": ROPE}, shapes=((None, None, 3),), static_size=False),
    Case("gated", arguments={"variant": GATED}),
    Case("rms_norm", arguments={"variant": RMS, "pooling": "gap"}),
    Case("distilled", arguments={"variant": DISTILLED}),
    Case("map_of_patches", arguments={"variant": POOLED, "pooling": "map"}),
    Case("post_norm", arguments={"variant": POST_NORM, **DROPS}),
    Case("parallel", arguments={"variant": PARALLEL, "pooling": "gap"}),
    Case("shared_bias", arguments={"variant": SHARED_BIAS, "pooling": "gap"}, shapes=((8, 12, 3),)),
    Case("factorized", arguments={"variant": FACTORIZED, "pooling": "gap"}, shapes=((8, 12, 3),)),
    Case("windows", arguments={"variant": WINDOWS, "pooling": "gap", **DROPS}, shapes=((12, 20, 3),)),
    Case(
        "windows_map",
        arguments={"variant": replace(WINDOWS, positions="none"), "pooling": None, "include_top": False},
        shapes=((12, 8, 3),),
    ),
    Case(
        "windows_of_one_norm", arguments={"variant": replace(WINDOWS, neck=0), "pooling": "gap"}, shapes=((12, 8, 3),)
    ),
    Case("without_a_final_norm", arguments={"variant": replace(TINY, final_norm=False)}),
    Case("free_size", shapes=((None, None, 3),), static_size=False),
    Case("gap_beside_a_class_token", arguments={"pooling": "gap", "class_token": True, "norm_after_pooling": True}),
    Case("hybrid", arguments={"variant": HYBRID}, shapes=((32, 32, 3),)),
    Case("stem_only", arguments={"variant": STEM_ONLY}, shapes=((20, 16, 3),)),
    Case("conv_stem", arguments={"variant": CONV_STEM}, shapes=((26, 24, 3),)),
    Case("local", arguments={"variant": LOCAL, "pooling": "gap"}, shapes=((8, 12, 3),)),
    Case("local_beside_a_class_token", arguments={"variant": LOCAL, "pooling": "gap", "class_token": True}),
    Case(
        "local_free_size", arguments={"variant": LOCAL, "pooling": "gap"}, shapes=((None, None, 3),), static_size=False
    ),
    Case(
        "positions_2d",
        arguments={"variant": replace(TINY, positions="2d", positions_at="layers")},
        shapes=((8, 12, 3),),
    ),
    Case("positions_shared", arguments={"variant": replace(TINY, positions_at="shared")}),
    Case(
        "positions_2d_free_size",
        arguments={"variant": replace(TINY, positions="2d", positions_at="shared")},
        shapes=((None, None, 3),),
        static_size=False,
    ),
    Case("relative", arguments={"variant": replace(TINY, positions="relative")}),
    Case("axial", arguments={"variant": AXIAL, "pooling": "gap", **DROPS}, shapes=((8, 12, 3),)),
    Case(
        "axial_free_size", arguments={"variant": AXIAL, "pooling": "map"}, shapes=((None, None, 3),), static_size=False
    ),
    Case("bit", arguments={"variant": BIT}, shapes=((32, 40, 1),)),
    Case("bit_batch_norm", arguments={"variant": BATCH_NORM}, shapes=((32, 40, 3),)),
    Case("bit_evo_norm", arguments={"variant": EVO_NORM}, shapes=((32, 40, 3),)),
    Case("bit_map", arguments={"variant": BIT, "include_top": False, "pooling": None}, shapes=((32, 32, 3),)),
    Case("axial_bit", arguments={"variant": AXIAL_BIT}, shapes=((32, 40, 1),)),
    Case("efficientnet", arguments={"variant": EFFICIENTNET, "dropout_rate": 0.1}, shapes=((32, 40, 1),)),
    Case("bit_free_size", arguments={"variant": BIT}, shapes=((None, 96, 3),), static_size=False),
)

CASES = LAYERS + MODELS
# Each has code of its own; the other kinds go through the same, put together in another way.
PRINCIPAL = ("token", "map", "headless", "pixels", "free_size", "hybrid", "local", "relative", "axial", "bit")
PRINCIPAL += ("registers", "clip", "rope", "relative_bias", "gated", "rms_norm", "distilled", "map_of_patches")
PRINCIPAL += (
    "efficientnet",
    "post_norm",
    "parallel",
    "shared_bias",
    "factorized",
    "windows",
    "bit_batch_norm",
    "bit_evo_norm",
    "conv_stem",
)


SINGLE_LAYERS = tuple(case for case in LAYERS if "_" not in case.name)  # one for each class


def principal_first(cases, also=(), names=PRINCIPAL, broad=()):
    """Return the cases as pytest parameters: quick ones without a mark, then `broad` ones, the others `large`.

    Args:
        cases: to test.
        also: further quick cases.
        names: of the quick cases.
        broad: the cases of `make test-broad`, where they are not quick.
    """

    def mark(case):
        if case.name in names or case in also:
            return ()
        return pytest.mark.broad if case in broad else pytest.mark.large

    return [pytest.param(case, id=case.name, marks=mark(case)) for case in cases]
