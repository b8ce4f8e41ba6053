"""timm's Vision Transformers with register tokens and without a class token.

Some have differential attention (arXiv 2410.05258) or parallel blocks (arXiv 2302.05442). Parameter counts are timm's.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import ParameterCounts, Variant

_GAP = {"pooling": "gap", "activation": "gelu", "image_size": 256}

Wee16_1 = replace(
    vit.B16, name="ViT_Wee16_reg1", paper_name="ViT-Wee/16-reg1",
    timm_name="vit_wee_patch16_reg1_gap", width=256, depth=14, mlp_dim=1280, num_heads=4, registers=1,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(13_165_568, 13_422_568, 18_779_219),
)  # fmt: skip
Little16_1 = replace(
    vit.B16, name="ViT_Little16_reg1", paper_name="ViT-Little/16-reg1",
    timm_name="vit_little_patch16_reg1_gap", width=320, depth=14, mlp_dim=1792, num_heads=5, registers=1,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(22_194_048, 22_515_048, 29_205_651),
)  # fmt: skip
Little16_4 = replace(
    vit.B16, name="ViT_Little16_reg4", paper_name="ViT-Little/16-reg4",
    timm_name="vit_little_patch16_reg4_gap", width=320, depth=14, mlp_dim=1792, num_heads=5, registers=4,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(22_195_008, 22_516_008, 29_206_611),
)  # fmt: skip
Medium16_1 = replace(
    vit.B16, name="ViT_Medium16_reg1", paper_name="ViT-Medium/16-reg1",
    timm_name="vit_medium_patch16_reg1_gap", width=512, depth=12, mlp_dim=2048, num_heads=8, registers=1,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(38_367_232, 38_880_232, 49_572_691),
)  # fmt: skip
Medium16_4 = replace(
    vit.B16, name="ViT_Medium16_reg4", paper_name="ViT-Medium/16-reg4",
    timm_name="vit_medium_patch16_reg4_gap", width=512, depth=12, mlp_dim=2048, num_heads=8, registers=4,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(38_368_768, 38_881_768, 49_574_227),
)  # fmt: skip
Betwixt16_1 = replace(
    vit.B16, name="ViT_Betwixt16_reg1", paper_name="ViT-Betwixt/16-reg1",
    timm_name="vit_betwixt_patch16_reg1_gap", width=640, depth=12, mlp_dim=2560, num_heads=10, registers=1,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(59_755_520, 60_396_520, 73_756_883),
)  # fmt: skip
Betwixt16_4 = replace(
    vit.B16, name="ViT_Betwixt16_reg4", paper_name="ViT-Betwixt/16-reg4",
    timm_name="vit_betwixt_patch16_reg4_gap", width=640, depth=12, mlp_dim=2560, num_heads=10, registers=4,
    layer_scale=1e-5, prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(59_757_440, 60_398_440, 73_758_803),
)  # fmt: skip
B16_4 = replace(
    vit.B16, name="ViT_B16_reg4", paper_name="ViT-B/16-reg4",
    timm_name="vit_base_patch16_reg4_gap", width=768, depth=12, mlp_dim=3072, num_heads=12, registers=4,
    prefix_positions=False, norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(85_846_272, 86_615_272, 102_643_539),
)  # fmt: skip
SO150M16_4 = replace(
    vit.B16, name="ViT_SO150M16_reg4", paper_name="ViT-SO150M/16-reg4",
    timm_name="vit_so150m_patch16_reg4_gap", width=896, depth=18, mlp_dim=2304, num_heads=14, registers=4,
    **_GAP,
    parameters=ParameterCounts(133_234_560, 134_131_560, 152_827_731),
)  # fmt: skip
SO150M2_16_1 = replace(
    vit.B16, name="ViT_SO150M2_16_reg1", paper_name="ViT-SO150M2/16-reg1",
    timm_name="vit_so150m2_patch16_reg1_gap", width=832, depth=21, mlp_dim=2176, num_heads=13, registers=1,
    layer_scale=1e-5, qkv_bias="none", norm_after_pooling=True, **_GAP,
    parameters=ParameterCounts(135_226_560, 136_059_560, 153_421_779),
)  # fmt: skip

DWee16_1 = replace(
    Wee16_1, name="ViT_DWee16_reg1", paper_name="ViT-DWee/16-reg1", timm_name="vit_dwee_patch16_reg1_gap",
    differential_attention=True,
    parameters=ParameterCounts(13_168_256, 13_425_256, 18_781_907),
)  # fmt: skip
DLittle16_1 = replace(
    Little16_1, name="ViT_DLittle16_reg1", paper_name="ViT-DLittle/16-reg1", timm_name="vit_dlittle_patch16_reg1_gap",
    differential_attention=True,
    parameters=ParameterCounts(22_196_736, 22_517_736, 29_208_339),
)  # fmt: skip
PWee16_1 = replace(
    Wee16_1, name="ViT_PWee16_reg1", paper_name="ViT-PWee/16-reg1", timm_name="vit_pwee_patch16_reg1_gap", depth=16,
    block="parallel",
    parameters=ParameterCounts(14_996_480, 15_253_480, 20_610_131),
)  # fmt: skip
DPWee16_1 = replace(
    PWee16_1, name="ViT_DPWee16_reg1", paper_name="ViT-DPWee/16-reg1", timm_name="vit_dpwee_patch16_reg1_gap",
    differential_attention=True, attention_out_bias=False,
    parameters=ParameterCounts(14_995_456, 15_252_456, 20_609_107),
)  # fmt: skip

ROWS: tuple[Variant, ...] = (
    Wee16_1,
    Little16_1,
    Little16_4,
    Medium16_1,
    Medium16_4,
    Betwixt16_1,
    Betwixt16_4,
    B16_4,
    SO150M16_4,
    SO150M2_16_1,
    DWee16_1,
    DLittle16_1,
    PWee16_1,
    DPWee16_1,
)
