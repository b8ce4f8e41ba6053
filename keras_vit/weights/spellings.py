"""Other names of the arrays in the table of names: one tuple per library and model.

A pair holds the table's name and the name in files, of an array or of a layer whose arrays have equal last components.
`{i}` is the encoder block. Names of transformers follow the prefix `vit.`, which stands for the model's own prefix.
"""

import functools
import re
import string
from collections import defaultdict

_LAYER = "vit.encoder.layer.{i}."
_QKV = ("query", "key", "value")


def _pairs(ours: str, theirs: str, names: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((ours + name, theirs + other) for name, other in names.items())


_NORMS = {"layernorm_before": "norm1", "layernorm_after": "norm2"}
_MLP = {"intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2"}
_PACKED = {"intermediate.dense": "mlp.weights_in", "output.dense": "mlp.weights_out"}
_GATED = {"mlp.gate": "mlp.gate_proj", "mlp.value": "mlp.value_proj", "output.dense": "mlp.down_proj"}


def _attention(start: str, out: str) -> dict[str, str]:
    return {f"attention.attention.{word}": f"{start}.{word[0]}_proj" for word in _QKV} | {
        "attention.output.dense": f"{start}.{out}"
    }


DINOV2 = _pairs(_LAYER, "vit.encoder.layer.{i}.", _NORMS | _MLP)
DINOV2_GATED = _pairs(_LAYER, "vit.encoder.layer.{i}.", _NORMS | _PACKED)
_DINOV3 = (
    ("vit.embeddings.patch_embeddings.projection", "vit.embeddings.patch_embeddings"),
    ("vit.layernorm", "vit.norm"),
    *_pairs(
        _LAYER,
        "vit.layer.{i}.",
        _NORMS | _attention("attention", "o_proj") | {f"layer_scale{n}": f"layer_scale{n}" for n in (1, 2)},
    ),
)
DINOV3 = (
    *_DINOV3,
    *_pairs(_LAYER, "vit.layer.{i}.", {"intermediate.dense": "mlp.up_proj", "output.dense": "mlp.down_proj"}),
)
DINOV3_GATED = (*_DINOV3, *_pairs(_LAYER, "vit.layer.{i}.", _GATED))
_TOWER = (
    ("vit.embeddings.cls_token", "vit.embeddings.class_embedding"),
    ("vit.embeddings.patch_embeddings.projection", "vit.embeddings.patch_embedding"),
    ("vit.embeddings.position_embeddings", "vit.embeddings.position_embedding.weight"),
    ("vit.layernorm", "vit.post_layernorm"),
    *_pairs(
        _LAYER,
        "vit.encoder.layers.{i}.",
        {"layernorm_before": "layer_norm1", "layernorm_after": "layer_norm2"}
        | _attention("self_attn", "out_proj")
        | _MLP,
    ),
)
CLIP = (*_TOWER, ("vit.pre_layrnorm", "vit.pre_layrnorm"))
SIGLIP = (
    *_TOWER,
    *(  # the thirds of torch's attention; see `weights.views`
        (f"vit.head.attention.{word}.{kind}", f"vit.head.attention.in_proj_{kind}[|{n}]")
        for n, word in enumerate(_QKV)
        for kind in ("weight", "bias")
    ),
)
AIMV2 = (
    ("vit.embeddings.patch_embeddings.projection", "vit.embeddings.patch_embed"),
    ("vit.embeddings.patch_norm", "vit.embeddings.rms_norm"),
    ("vit.embeddings.position_embeddings", "vit.embeddings.position_embedding.weight"),
    ("vit.layernorm", "vit.rms_norm"),
    *_pairs(
        _LAYER,
        "vit.encoder.layers.{i}.",
        {"layernorm_before": "rms_norm1", "layernorm_after": "rms_norm2"}
        | _attention("attention", "out_proj")
        | {"mlp.gate": "ffn.gate_proj", "mlp.value": "ffn.up_proj", "output.dense": "ffn.down_proj"},
    ),
)
SAM = (  # query, key and value are one array
    ("vit.embeddings.patch_embeddings.projection", "vit.patch_embed.projection"),
    *_pairs(
        _LAYER,
        "vit.layers.{i}.",
        {"layernorm_before": "layer_norm1", "layernorm_after": "layer_norm2", "attention.output.dense": "attn.proj"}
        | {"intermediate.dense": "mlp.lin1", "output.dense": "mlp.lin2"},
    ),
)
_TABLE = "attention.attention.relative_position_bias.relative_position_bias_table"
BEIT = _pairs(
    _LAYER, "vit.encoder.layer.{i}.", {"layer_scale1.lambda1": "lambda_1", "layer_scale2.lambda1": "lambda_2"}
)
SHARED_BIAS = (  # one table of relative biases for all blocks; see `weights.views`
    (_LAYER + _TABLE, "vit.encoder.relative_position_bias.relative_position_bias_table[={i}]"),
    ("blocks.{i}.attn.relative_position_bias_table", "rel_pos_bias.relative_position_bias_table[={i}]"),
)
OPENCLIP = (  # and OpenAI's, after `visual.`
    ("cls_token", "class_embedding"),
    ("patch_embed.proj", "conv1"),
    ("pos_embed", "positional_embedding"),
    ("norm_pre", "ln_pre"),
    ("norm", "ln_post"),
    *_pairs(
        "blocks.{i}.",
        "transformer.resblocks.{i}.",
        {
            "norm1": "ln_1",
            "attn.qkv.weight": "attn.in_proj_weight",
            "attn.qkv.bias": "attn.in_proj_bias",
            "attn.proj": "attn.out_proj",
            "ls1": "ls_1",
            "norm2": "ln_2",
            "mlp.fc1": "mlp.c_fc",
            "mlp.fc2": "mlp.c_proj",
            "ls2": "ls_2",
        },
    ),
)
DINOV3_OFFICIAL = (
    ("reg_token", "storage_tokens"),
    *_pairs("blocks.{i}.mlp.", "blocks.{i}.mlp.", {"fc1_g": "w1", "fc1_x": "w2", "fc2": "w3"}),
)
_ALL = (
    DINOV2,
    DINOV2_GATED,
    DINOV3,
    DINOV3_GATED,
    CLIP,
    SIGLIP,
    AIMV2,
    SAM,
    BEIT,
    SHARED_BIAS,
    OPENCLIP,
    DINOV3_OFFICIAL,
)
_IN_FILES = tuple((theirs, ours) for pairs in _ALL for ours, theirs in pairs)


def shape_of(name: str) -> str:
    """Return a name with # for its numbers."""
    return re.sub(r"\d+", "#", name)


def name_pattern(template: str) -> tuple[str, str]:
    """Return the regular expression and the shape of a name with indices in braces."""
    pattern, shape = "", ""
    for text, key, _, _ in string.Formatter().parse(template):
        pattern += re.escape(text) + (f"(?P<{key}>[0-9]{{1,3}})" if key else "")
        shape += shape_of(text) + ("#" if key else "")
    return pattern, shape


def in_table(name: str) -> list[str]:
    """Return the table's names of an array of a file."""
    return _translate(name, _IN_FILES)


def in_file(name: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return the name in files of an array of the table; the table's name if `pairs` has no other."""
    return next(iter(_translate(name, pairs)), name)


def _translate(name: str, pairs: tuple[tuple[str, str], ...]) -> list[str]:
    stem, _, last = name.rpartition(".")
    found = []
    for known, rest in ((name, ""), (stem, f".{last}")):
        for pattern, new in _patterns(pairs).get(shape_of(known), ()):
            if match := pattern.fullmatch(known):
                found.append(new.format(**match.groupdict()) + rest)
    return found


@functools.cache
def _patterns(pairs: tuple[tuple[str, str], ...]) -> dict[str, list[tuple[re.Pattern, str]]]:
    """Return the patterns of the first names of pairs, and the second names, by the shape of the first name."""
    known = defaultdict(list)
    for name, new in dict.fromkeys(pairs):
        pattern, shape = name_pattern(name)
        known[shape].append((re.compile(pattern), new))
    return dict(known)
