"""The table of names: our variables and their names in every published layout, for reading and writing.

`{i}` is the encoder block. `{s}` and `{u}` are stage and unit of a ResNet from one, `{s0}` and `{u0}` from zero.
`*` stands for query, key and value, `?` for q, k and v, and `&` for key and value; a transform joins and splits their
arrays. `name[{i}]` is one entry of an array that stacks the blocks, `name[:,{i}]` of one that stacks them on axis 1.
"""

from keras_vit.weights.name_rows import Row, make_row, row_of_cells
from keras_vit.weights.names_apart import APART
from keras_vit.weights.names_bit import BIT
from keras_vit.weights.names_efficientnet import EFFICIENTNET
from keras_vit.weights.names_options import OPTIONS, attention_options_shown
from keras_vit.weights.transforms import (
    CHANNELS,
    HALF_BIASES,
    HALVES,
    IN_BIAS,
    IN_KERNEL,
    JOINED,
    KV_BIAS,
    KV_KERNEL,
    OUT_KERNEL,
    PATCH_KERNEL,
    QKV_BIAS,
    QKV_KERNEL,
    SAME,
    TORCH_CONV,
    TORCH_QKV,
    TRANSPOSED,
    Transform,
)


def _dense(ours: str, npz: str, linen: str | None = None, timm: str | None = None, hf: str | None = None):
    """Make the two rows of a dense layer. Our kernels are (in, out), torch's are (out, in)."""
    torch = {"timm": timm, "hf": hf}
    kernel = {layout: (f"{name}.weight", TRANSPOSED) for layout, name in torch.items() if name}
    bias = {layout: f"{name}.bias" for layout, name in torch.items() if name}
    return (
        make_row(f"{ours}/kernel", npz=f"{npz}/kernel", linen=f"{linen or npz}/kernel", **kernel),
        make_row(f"{ours}/bias", npz=f"{npz}/bias", linen=f"{linen or npz}/bias", **bias),
    )


def _norm(ours: str, npz: str, linen: str | None = None, transform: Transform = SAME, **torch):
    """Make the two rows of a norm: gamma and beta, in flax scale and bias, in torch weight and bias."""
    return tuple(
        make_row(
            f"{ours}/{mine}",
            npz=(f"{npz}/{theirs}", transform),
            linen=f"{linen or npz}/{theirs}",
            **{layout: f"{name}.{word}" for layout, name in torch.items()},
        )
        for mine, theirs, word in (("gamma", "scale", "weight"), ("beta", "bias", "bias"))
    )


def _torch_norm(ours: str, **names: str):
    """Make the two rows of a norm that only torch's layouts have."""
    return tuple(
        row_of_cells(f"{ours}/{mine}", {layout: (f"{name}.{word}", SAME) for layout, name in names.items()})
        for mine, word in (("gamma", "weight"), ("beta", "bias"))
    )


def _torch(ours: str, timm: str, hf: str) -> Row:
    return row_of_cells(ours, {"timm": (timm, SAME), "hf": (hf, SAME)})


def _projection(ours: str, linen: str, timm: str, hf: str, kernel: Transform, bias: Transform):
    """Make the two rows of a dense layer in the attention of the MAP head. `&` stands for two arrays."""
    torch_kernel, torch_bias = (HALVES, HALF_BIASES) if "&" in hf else (TRANSPOSED, SAME)
    return (
        make_row(
            f"{ours}/kernel",
            npz=(f"{linen}/kernel", kernel),
            timm=(f"{timm}.weight", TRANSPOSED),
            hf=(f"{hf}.weight", torch_kernel),
        ),
        make_row(f"{ours}/bias", npz=(f"{linen}/bias", bias), timm=f"{timm}.bias", hf=(f"{hf}.bias", torch_bias)),
    )


def _stem_conv(ours: str, npz: str, timm: str, hf: str) -> Row:
    torch = {"timm": (f"{timm}.weight", TORCH_CONV), "hf": (f"{hf}.weight", TORCH_CONV)}
    return make_row(f"{ours}/kernel", npz=f"{npz}/kernel", **torch)


_OURS, _NPZ, _HF = "encoder_block_{i:02d}/", "Transformer/encoderblock_{i}/", "vit.encoder.layer.{i}."
_MHA_1, _MHA_0 = _NPZ + "MultiHeadDotProductAttention_1/", _NPZ + "MultiHeadDotProductAttention_0/"
_MAP = "MAPHead_0/"
_MAP_MHA, _MAP_HF = _MAP + "MultiHeadDotProductAttention_0/", "vit.head.attention."
_STEM, _STEM_NPZ = "stem_stage{s}_unit{u}/", "block{s}/unit{u}/"
_STEM_TIMM = "patch_embed.backbone.stages.{s0}.blocks.{u0}."
_ROOT_HF = "vit.embeddings.patch_embeddings.backbone.bit.embedder."
_STEM_HF = "vit.embeddings.patch_embeddings.backbone.bit.encoder.stages.{s0}.layers.{u0}."

VIT = (
    _stem_conv("stem_root", "conv_root", "patch_embed.backbone.stem.conv", _ROOT_HF + "convolution"),
    *_norm(
        "stem_root_norm",
        "gn_root",
        transform=CHANNELS,
        timm="patch_embed.backbone.stem.norm",
        hf=_ROOT_HF + "norm",
    ),
    *(
        _stem_conv(_STEM + ours, _STEM_NPZ + npz, _STEM_TIMM + torch, _STEM_HF + torch)
        for ours, npz, torch in (*((f"conv{n}",) * 3 for n in (1, 2, 3)), ("proj", "conv_proj", "downsample.conv"))
    ),
    *(
        row
        for ours, npz, torch in (
            *((f"norm{n}", f"gn{n}", f"norm{n}") for n in (1, 2, 3)),
            ("proj_norm", "gn_proj", "downsample.norm"),
        )
        for row in _norm(
            _STEM + ours, _STEM_NPZ + npz, transform=CHANNELS, timm=_STEM_TIMM + torch, hf=_STEM_HF + torch
        )
    ),
    make_row(
        "embedding/kernel",
        npz="embedding/kernel",
        timm=("patch_embed.proj.weight", TORCH_CONV),
        hf=("vit.embeddings.patch_embeddings.projection.weight", PATCH_KERNEL),
    ),
    make_row(
        "embedding/bias",
        npz="embedding/bias",
        timm="patch_embed.proj.bias",
        hf="vit.embeddings.patch_embeddings.projection.bias",
    ),
    make_row("class_token/token", npz="cls", timm="cls_token", hf="vit.embeddings.cls_token"),
    _torch("distillation_token/token", "dist_token", "vit.embeddings.distillation_token"),
    _torch("registers/token", "reg_token", "vit.embeddings.register_tokens"),
    make_row(
        "position_embedding/embedding",
        npz="Transformer/posembed_input/pos_embedding",
        big_vision="pos_embedding",
        timm="pos_embed",
        hf="vit.embeddings.position_embeddings",
    ),
    *_torch_norm("patch_norm", timm="patch_embed.norm", hf="vit.embeddings.patch_norm"),
    *_torch_norm("pre_norm", timm="norm_pre", hf="vit.pre_layrnorm"),
    *_norm(
        _OURS + "attention_norm",
        _NPZ + "LayerNorm_0",
        timm="blocks.{i}.norm1",
        hf=_HF + "layernorm_before",
    ),
    make_row(
        _OURS + "attention/qkv/kernel",
        npz=(_MHA_1 + "*/kernel", QKV_KERNEL),
        linen=(_MHA_0 + "*/kernel", QKV_KERNEL),
        timm=("blocks.{i}.attn.qkv.weight", TRANSPOSED),
        hf=(_HF + "attention.attention.*.weight", TORCH_QKV),
    ),
    make_row(
        _OURS + "attention/qkv/bias",
        npz=(_MHA_1 + "*/bias", QKV_BIAS),
        linen=(_MHA_0 + "*/bias", QKV_BIAS),
        timm="blocks.{i}.attn.qkv.bias",
        hf=(_HF + "attention.attention.*.bias", JOINED),
    ),
    _torch(_OURS + "attention/query_bias", "blocks.{i}.attn.q_bias", _HF + "attention.attention.query.bias"),
    _torch(_OURS + "attention/value_bias", "blocks.{i}.attn.v_bias", _HF + "attention.attention.value.bias"),
    row_of_cells(_OURS + "attention/frequencies", {"timm": ("rope.freqs[:,{i}]", SAME)}),
    _torch(
        _OURS + "attention/bias/table",
        "blocks.{i}.attn.relative_position_bias_table",
        _HF + "attention.attention.relative_position_bias.relative_position_bias_table",
    ),
    *(
        row_of_cells(f"{_OURS}attention/bias/{ours}", {"timm": (f"blocks.{{i}}.attn.rel_pos.mlp.{theirs}", transform)})
        for n in (1, 2)
        for ours, theirs, transform in (
            (f"fc{n}/kernel", f"fc{n}.weight", TRANSPOSED),
            (f"fc{n}/bias", f"fc{n}.bias", SAME),
        )
    ),
    *_torch_norm(_OURS + "attention/norm", timm="blocks.{i}.attn.norm"),
    make_row(
        _OURS + "attention/out/kernel",
        npz=(_MHA_1 + "out/kernel", OUT_KERNEL),
        linen=(_MHA_0 + "out/kernel", OUT_KERNEL),
        timm=("blocks.{i}.attn.proj.weight", TRANSPOSED),
        hf=(_HF + "attention.output.dense.weight", TRANSPOSED),
    ),
    make_row(
        _OURS + "attention/out/bias",
        npz=_MHA_1 + "out/bias",
        linen=_MHA_0 + "out/bias",
        timm="blocks.{i}.attn.proj.bias",
        hf=_HF + "attention.output.dense.bias",
    ),
    _torch(_OURS + "attention_scale/gamma", "blocks.{i}.ls1.gamma", _HF + "layer_scale1.lambda1"),
    *_norm(
        _OURS + "mlp_norm",
        _NPZ + "LayerNorm_2",
        _NPZ + "LayerNorm_1",
        timm="blocks.{i}.norm2",
        hf=_HF + "layernorm_after",
    ),
    *_dense(
        _OURS + "mlp/fc1",
        _NPZ + "MlpBlock_3/Dense_0",
        _NPZ + "MlpBlock_0/Dense_0",
        "blocks.{i}.mlp.fc1",
        _HF + "intermediate.dense",
    ),
    *_torch_norm(_OURS + "mlp/norm", timm="blocks.{i}.mlp.norm"),
    *(row_of_cells(f"{_OURS}mlp/local/{part}", {}) for part in ("kernel", "bias")),  # not in any published layout
    *_dense(
        _OURS + "mlp/fc2",
        _NPZ + "MlpBlock_3/Dense_1",
        _NPZ + "MlpBlock_0/Dense_1",
        "blocks.{i}.mlp.fc2",
        _HF + "output.dense",
    ),
    _torch(_OURS + "mlp_scale/gamma", "blocks.{i}.ls2.gamma", _HF + "layer_scale2.lambda1"),
    *_norm("encoder_norm", "Transformer/encoder_norm", timm="norm", hf="vit.layernorm"),
    *_torch_norm("pooled_norm", timm="fc_norm", hf="vit.pooler.layernorm"),
    make_row("pooling/probe", npz=_MAP + "probe", timm="attn_pool.latent", hf="vit.head.probe"),
    *_projection("pooling/query", _MAP_MHA + "query", "attn_pool.q", _MAP_HF + "query", IN_KERNEL, IN_BIAS),
    *_projection("pooling/key_value", _MAP_MHA + "&", "attn_pool.kv", _MAP_HF + "&", KV_KERNEL, KV_BIAS),
    *_projection("pooling/out", _MAP_MHA + "out", "attn_pool.proj", _MAP_HF + "out_proj", OUT_KERNEL, SAME),
    *_norm("pooling/norm", _MAP + "LayerNorm_0", timm="attn_pool.norm", hf="vit.head.layernorm"),
    *_dense("pooling/mlp/fc1", _MAP + "MlpBlock_0/Dense_0", timm="attn_pool.mlp.fc1", hf="vit.head.mlp.fc1"),
    *_dense("pooling/mlp/fc2", _MAP + "MlpBlock_0/Dense_1", timm="attn_pool.mlp.fc2", hf="vit.head.mlp.fc2"),
    *_dense("pre_logits", "pre_logits", timm="pre_logits.fc", hf="vit.pooler.dense"),
    *_dense("head", "head", timm="head", hf="classifier"),
)


_BLOCK_VARIABLES = [row.ours.removeprefix(_OURS) for row in VIT if row.ours.startswith(_OURS)]
VIT += tuple(  # for the paper's ablations; not in any published layout
    row_of_cells(path, {})
    for path in (
        "position_embedding/prefix",
        *(f"position_embedding_{{i:02d}}/{part}" for part in ("embedding", "across", "down", "prefix")),
        _OURS + "attention/offsets",
        *(f"{_OURS}{axis}/{part}" for axis in ("row", "column") for part in (*_BLOCK_VARIABLES, "attention/offsets")),
    )
)


TABLES = {"vit": (*VIT, *APART, *OPTIONS), "bit": BIT, "efficientnet": EFFICIENTNET}
# The variables (1, count, D) of the tokens in front of the patches, one layer each.
PREFIX = ("class_token/token", "distillation_token/token", "registers/token")
# RoPE-ViT's rotary positions, the only public ones with learned frequencies
LEARNED_ROPE = {"temperature": 10.0, "learned": True, "order": "xy"}
# Fields of a row that the shape of a variable shows: field -> (variable, the value by the shape).
SHOWN = {
    "mlp_kernel_size": ("encoder_block_00/mlp/local/kernel", lambda shape: shape[0]),
    "layer_scale": ("encoder_block_00/attention_scale/gamma", lambda shape: 1e-5),  # replaced by the file's factors
    "pre_norm": ("pre_norm/gamma", lambda shape: True),
    "rope": ("encoder_block_00/attention/frequencies", lambda shape: LEARNED_ROPE),
    "patch_norm": ("patch_norm/gamma", lambda shape: True),
    "mlp_inner_norm": ("encoder_block_00/mlp/norm/gamma", lambda shape: True),
    "attention_inner_norm": ("encoder_block_00/attention/norm/gamma", lambda shape: True),
}


def options_shown(shapes: dict[str, tuple[int, ...]], may_lack: bool) -> dict[str, object]:
    """Return the fields of a row that the shapes of its variables show, by name.

    Args:
        shapes: shapes of the variables by path.
        may_lack: whether a missing bias or norm is a property of the model.
    """
    shown = {field: value(shapes[path]) for field, (path, value) in SHOWN.items() if path in shapes}
    shown |= attention_options_shown(shapes)
    block = "encoder_block_00/"
    first, second = (shapes.get(f"{block}mlp/fc{n}/kernel", (0, 0)) for n in (1, 2))
    if second[0] and first[-1] == 2 * second[0]:
        shown["gated_mlp"] = True
    if f"{block}attention/qkv/kernel" in shapes and f"{block}attention/qkv/bias" not in shapes:
        shown["qkv_bias"] = "qv" if f"{block}attention/query_bias" in shapes else "none"
    pooled, usual = (shapes.get(f"{path}mlp/fc1/kernel", (0,))[-1] for path in ("pooling/", block))
    if pooled and pooled != (usual // 2 if "gated_mlp" in shown else usual):
        shown["pooling_mlp_dim"] = pooled
    if f"{block}attention/bias/table" in shapes:
        shown["relative_bias"] = "table"
    if f"{block}attention/bias/fc1/kernel" in shapes:
        shown |= {"relative_bias": "mlp", "relative_bias_dim": shapes[f"{block}attention/bias/fc1/kernel"][-1]}
    # Patch embeddings without bias are followed by a norm, in CLIP. Elsewhere the bias is missing.
    if "pre_norm" in shown and "embedding/bias" not in shapes:
        shown["patch_bias"] = False
    if may_lack and f"{block}attention_norm/gamma" in shapes:
        lacks = {
            "norm": ("rms", (f"{block}attention_norm/beta",)),
            "dense_bias": (False, (f"{block}attention/out/bias", f"{block}mlp/fc2/bias")),
            "final_norm": (False, ("encoder_norm/gamma", "pooled_norm/gamma", "neck_norm2/gamma")),
        }
        shown |= {field: value for field, (value, paths) in lacks.items() if not any(path in shapes for path in paths)}
    return shown
