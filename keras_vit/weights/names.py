"""The table of names: our variables and their names in every published layout, for reading and writing.

`{i}` is the encoder block. `{s}` and `{u}` are stage and unit of a ResNet from one, `{s0}` and `{u0}` from zero.
`*` stands for query, key and value, and `&` for key and value; a transform joins and splits their arrays. `name[{i}]`
is one entry of an array that stacks the blocks.
"""

from dataclasses import dataclass, field

from keras_vit.weights.transforms import (
    CHANNELS,
    IN_BIAS,
    IN_KERNEL,
    JOINED,
    KV_BIAS,
    KV_KERNEL,
    OUT_KERNEL,
    POINTWISE,
    QKV_BIAS,
    QKV_KERNEL,
    SAME,
    TORCH_CONV,
    TORCH_POINTWISE,
    TORCH_QKV,
    TRANSPOSED,
    Transform,
)


@dataclass(frozen=True)
class Cell:
    """The names of one variable in one layout, and the transform between their arrays and the variable."""

    names: tuple[str, ...]
    transform: Transform = SAME


@dataclass(frozen=True)
class Row:
    """One of our variables, with its cell in each layout that has it."""

    ours: str
    cells: dict[str, Cell] = field(default_factory=dict)


def _row(ours: str, **cells) -> Row:
    """Make a row from cells that are a name or (name, transform).

    The default of linen is npz's cell. big_vision's stacked name follows from linen's.
    """
    cells.setdefault("linen", cells["npz"])
    cells = {layout: cell if isinstance(cell, tuple) else (cell, SAME) for layout, cell in cells.items()}
    name, transform = cells["linen"]
    if "encoderblock_{i}/" in name:
        name = name.replace("encoderblock_{i}/", "encoderblock/") + "[{i}]"
    cells.setdefault("big_vision", (name, transform))
    return _cells(ours, cells)


def _cells(ours, cells) -> Row:
    parts = {layout: (_parts(name), transform) for layout, (name, transform) in cells.items()}
    parts["keras"] = ((ours,), SAME)
    return Row(ours, {layout: Cell(*cell) for layout, cell in parts.items()})


def _parts(name: str) -> tuple[str, ...]:
    for wildcard, parts in (("*", ("query", "key", "value")), ("&", ("key", "value"))):
        if wildcard in name:
            return tuple(name.replace(wildcard, part) for part in parts)
    return (name,)


def _dense(ours: str, npz: str, linen: str | None = None, timm: str | None = None, hf: str | None = None):
    """Make the two rows of a dense layer. Our kernels are (in, out), torch's are (out, in)."""
    torch = {"timm": timm, "hf": hf}
    kernel = {layout: (f"{name}.weight", TRANSPOSED) for layout, name in torch.items() if name}
    bias = {layout: f"{name}.bias" for layout, name in torch.items() if name}
    return (
        _row(f"{ours}/kernel", npz=f"{npz}/kernel", linen=f"{linen or npz}/kernel", **kernel),
        _row(f"{ours}/bias", npz=f"{npz}/bias", linen=f"{linen or npz}/bias", **bias),
    )


def _norm(ours: str, npz: str, linen: str | None = None, transform: Transform = SAME, **torch):
    """Make the two rows of a norm: gamma and beta, in flax scale and bias, in torch weight and bias."""
    return tuple(
        _row(
            f"{ours}/{mine}",
            npz=(f"{npz}/{theirs}", transform),
            linen=f"{linen or npz}/{theirs}",
            **{layout: f"{name}.{word}" for layout, name in torch.items()},
        )
        for mine, theirs, word in (("gamma", "scale", "weight"), ("beta", "bias", "bias"))
    )


def _only_timm(ours: str, name: str):
    return tuple(
        _cells(f"{ours}/{mine}", {"timm": (f"{name}.{word}", SAME)})
        for mine, word in (("gamma", "weight"), ("beta", "bias"))
    )


def _projection(ours: str, linen: str, timm: str, kernel: Transform, bias: Transform):
    """Make the two rows of a dense layer in the attention of the MAP head."""
    return (
        _row(f"{ours}/kernel", npz=(f"{linen}/kernel", kernel), timm=(f"{timm}.weight", TRANSPOSED)),
        _row(f"{ours}/bias", npz=(f"{linen}/bias", bias), timm=f"{timm}.bias"),
    )


def _stem_conv(ours: str, npz: str, timm: str, hf: str) -> Row:
    torch = {"timm": (f"{timm}.weight", TORCH_CONV), "hf": (f"{hf}.weight", TORCH_CONV)}
    return _row(f"{ours}/kernel", npz=f"{npz}/kernel", **torch)


_OURS, _NPZ, _HF = "encoder_block_{i:02d}/", "Transformer/encoderblock_{i}/", "vit.encoder.layer.{i}."
_MHA_1, _MHA_0 = _NPZ + "MultiHeadDotProductAttention_1/", _NPZ + "MultiHeadDotProductAttention_0/"
_MAP = "MAPHead_0/"
_MAP_MHA = _MAP + "MultiHeadDotProductAttention_0/"
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
    _row(
        "embedding/kernel",
        npz="embedding/kernel",
        timm=("patch_embed.proj.weight", TORCH_CONV),
        hf=("vit.embeddings.patch_embeddings.projection.weight", TORCH_CONV),
    ),
    _row(
        "embedding/bias",
        npz="embedding/bias",
        timm="patch_embed.proj.bias",
        hf="vit.embeddings.patch_embeddings.projection.bias",
    ),
    _row("class_token/token", npz="cls", timm="cls_token", hf="vit.embeddings.cls_token"),
    _row(
        "position_embedding/embedding",
        npz="Transformer/posembed_input/pos_embedding",
        big_vision="pos_embedding",
        timm="pos_embed",
        hf="vit.embeddings.position_embeddings",
    ),
    *_norm(
        _OURS + "attention_norm",
        _NPZ + "LayerNorm_0",
        timm="blocks.{i}.norm1",
        hf=_HF + "layernorm_before",
    ),
    _row(
        _OURS + "attention/qkv/kernel",
        npz=(_MHA_1 + "*/kernel", QKV_KERNEL),
        linen=(_MHA_0 + "*/kernel", QKV_KERNEL),
        timm=("blocks.{i}.attn.qkv.weight", TRANSPOSED),
        hf=(_HF + "attention.attention.*.weight", TORCH_QKV),
    ),
    _row(
        _OURS + "attention/qkv/bias",
        npz=(_MHA_1 + "*/bias", QKV_BIAS),
        linen=(_MHA_0 + "*/bias", QKV_BIAS),
        timm="blocks.{i}.attn.qkv.bias",
        hf=(_HF + "attention.attention.*.bias", JOINED),
    ),
    _row(
        _OURS + "attention/out/kernel",
        npz=(_MHA_1 + "out/kernel", OUT_KERNEL),
        linen=(_MHA_0 + "out/kernel", OUT_KERNEL),
        timm=("blocks.{i}.attn.proj.weight", TRANSPOSED),
        hf=(_HF + "attention.output.dense.weight", TRANSPOSED),
    ),
    _row(
        _OURS + "attention/out/bias",
        npz=_MHA_1 + "out/bias",
        linen=_MHA_0 + "out/bias",
        timm="blocks.{i}.attn.proj.bias",
        hf=_HF + "attention.output.dense.bias",
    ),
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
    *(_cells(f"{_OURS}mlp/local/{part}", {}) for part in ("kernel", "bias")),  # not in any published layout
    *_dense(
        _OURS + "mlp/fc2",
        _NPZ + "MlpBlock_3/Dense_1",
        _NPZ + "MlpBlock_0/Dense_1",
        "blocks.{i}.mlp.fc2",
        _HF + "output.dense",
    ),
    *_norm("encoder_norm", "Transformer/encoder_norm", timm="norm", hf="vit.layernorm"),
    *_only_timm("pooled_norm", "fc_norm"),
    _row("pooling/probe", npz=_MAP + "probe", timm="attn_pool.latent"),
    *_projection("pooling/query", _MAP_MHA + "query", "attn_pool.q", IN_KERNEL, IN_BIAS),
    *_projection("pooling/key_value", _MAP_MHA + "&", "attn_pool.kv", KV_KERNEL, KV_BIAS),
    *_projection("pooling/out", _MAP_MHA + "out", "attn_pool.proj", OUT_KERNEL, SAME),
    *_norm("pooling/norm", _MAP + "LayerNorm_0", timm="attn_pool.norm"),
    *_dense("pooling/mlp/fc1", _MAP + "MlpBlock_0/Dense_0", timm="attn_pool.mlp.fc1"),
    *_dense("pooling/mlp/fc2", _MAP + "MlpBlock_0/Dense_1", timm="attn_pool.mlp.fc2"),
    *_dense("pre_logits", "pre_logits", timm="pre_logits.fc", hf="vit.pooler.dense"),
    *_dense("head", "head", timm="head", hf="classifier"),
)


_OF_BLOCKS = [row.ours.removeprefix(_OURS) for row in VIT if row.ours.startswith(_OURS)]
VIT += tuple(  # of the paper's ablations; not in any published layout
    _cells(path, {})
    for path in (
        *(f"position_embedding/{part}" for part in ("across", "down", "prefix")),
        *(f"position_embedding_{{i:02d}}/{part}" for part in ("embedding", "across", "down", "prefix")),
        _OURS + "attention/offsets",
        *(f"{_OURS}{axis}/{part}" for axis in ("row", "column") for part in (*_OF_BLOCKS, "attention/offsets")),
    )
)


def _bit_conv(ours: str, npz: str, big_vision: str, timm: str, hf: str) -> Row:
    return _cells(
        f"{ours}/kernel",
        {
            "npz": (f"resnet/{npz}standardized_conv2d/kernel", SAME),
            "big_vision": (f"{big_vision}/kernel", SAME),
            "timm": (f"{timm}.weight", TORCH_CONV),
            "hf": (f"{hf}.weight", TORCH_CONV),
        },
    )


def _bit_norm(ours: str, npz: str, big_vision: str, timm: str, hf: str):
    return tuple(
        _cells(
            f"{ours}/{mine}",
            {
                "npz": (f"resnet/{npz}group_norm/{mine}", SAME),
                "big_vision": (f"{big_vision}/{theirs}", CHANNELS),
                "timm": (f"{timm}.{word}", SAME),
                "hf": (f"{hf}.{word}", SAME),
            },
        )
        for mine, theirs, word in (("gamma", "scale", "weight"), ("beta", "bias", "bias"))
    )


_UNIT, _BIT_NPZ, _BIT_BV = "stage{s}_unit{u:02d}/", "block{s}/unit{u:02d}/", "block{s}/unit{u:02d}/"
_BIT_TIMM, _BIT_HF = "stages.{s0}.blocks.{u0}.", "bit.encoder.stages.{s0}.layers.{u0}."
_LETTERS = ((1, "a"), (2, "b"), (3, "c"))
BIT = (
    _bit_conv("root", "root_block/", "root_block/conv_root", "stem.conv", "bit.embedder.convolution"),
    *(
        _bit_conv(_UNIT + ours, _BIT_NPZ + npz, _BIT_BV + big_vision, _BIT_TIMM + torch, _BIT_HF + torch)
        for ours, npz, big_vision, torch in (
            *((f"conv{n}", f"{letter}/", f"conv{n}", f"conv{n}") for n, letter in _LETTERS),
            ("proj", "a/proj/", "conv_proj", "downsample.conv"),
        )
    ),
    *(
        row
        for n, letter in _LETTERS
        for row in _bit_norm(
            f"{_UNIT}norm{n}", f"{_BIT_NPZ}{letter}/", f"{_BIT_BV}gn{n}", f"{_BIT_TIMM}norm{n}", f"{_BIT_HF}norm{n}"
        )
    ),
    *(  # not in any published layout
        _cells(f"{_UNIT}axial/{line}/{part}", {})
        for line in ("row", "column")
        for part in ("offsets", "qkv/kernel", "qkv/bias", "out/kernel", "out/bias")
    ),
    *_bit_norm("norm", "", "norm-pre-head", "norm", "bit.norm"),
    _cells(
        "head/kernel",
        {
            "npz": ("resnet/head/conv2d/kernel", POINTWISE),
            "big_vision": ("head/kernel", SAME),
            "timm": ("head.fc.weight", TORCH_POINTWISE),
            "hf": ("classifier.1.weight", TRANSPOSED),
        },
    ),
    _cells(
        "head/bias",
        {
            "npz": ("resnet/head/conv2d/bias", SAME),
            "big_vision": ("head/bias", SAME),
            "timm": ("head.fc.bias", SAME),
            "hf": ("classifier.1.bias", SAME),
        },
    ),
)

TABLES = {"vit": VIT, "bit": BIT}
# The variables (1, count, D) of the tokens in front of the patches, each in a layer of its own.
PREFIX = ("class_token/token",)
# Fields of a row that the shape of a variable shows: field -> (variable, the value by the shape).
SHOWN = {"mlp_kernel_size": ("encoder_block_00/mlp/local/kernel", lambda shape: shape[0])}
