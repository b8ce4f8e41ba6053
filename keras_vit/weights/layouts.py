"""Define the layouts: their conventions, and the spelling of names in files."""

import functools
import re
from collections import defaultdict
from dataclasses import dataclass

from keras_vit.weights.name_rows import Cell, Row
from keras_vit.weights.names import TABLES
from keras_vit.weights.spellings import in_table, name_pattern, shape_of


@dataclass(frozen=True)
class Layout:
    """A column of the table of names, and the conventions that its files do not state.

    Args:
        name: name of the column.
        activation: activation of the MLPs.
        layer_norm_epsilon: epsilon of all layer norms.
        group_norm_epsilon: epsilon of group norms in a hybrid's stem.
        weight_epsilon: epsilon of weight standardisation in the stem.
        weight_epsilon_on: `std` or `variance`, to which `weight_epsilon` is added.
        bit_weight_epsilon: epsilon of BiT's weight standardisation, which is added to the variance.
        position_resize: method by which the layout's library resizes position embeddings.
        fixed_positions: whether a file without positions has `sincos2d` positions.
        writable: whether `save_weights` can write the layout.
        never_written: prefixes of variables that the layout's current code does not support.
        varying: fields that differ among the models of this layout.
    """

    name: str
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-6
    group_norm_epsilon: float = 1e-6
    weight_epsilon: float = 1e-5
    weight_epsilon_on: str = "std"
    bit_weight_epsilon: float = 1e-10
    position_resize: str = "official"
    fixed_positions: bool = False
    writable: bool = True
    never_written: tuple[str, ...] = ()
    varying: tuple[str, ...] = ()


_VARYING = ("activation", "layer_norm_epsilon")
_TORCH_RESNETS = {
    "group_norm_epsilon": 1e-5,
    "weight_epsilon": 1e-8,
    "weight_epsilon_on": "variance",
    "bit_weight_epsilon": 1e-8,
}
LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("npz", fixed_positions=True),
        Layout("linen", fixed_positions=True),
        Layout("big_vision", fixed_positions=True, writable=False),
        Layout(
            "timm", "gelu", **_TORCH_RESNETS, position_resize="timm", never_written=("pre_logits/",), varying=_VARYING
        ),
        Layout("hf", "gelu", 1e-12, **_TORCH_RESNETS, position_resize="hf", varying=_VARYING),
        Layout("keras_hub", "gelu"),  # preset folders, whose names are in `keras_hub_models`
        Layout("applications", writable=False),  # keras.applications
        Layout("keras", writable=False),
    )
}
WRITABLE = tuple(layout.name for layout in LAYOUTS.values() if layout.writable)

# Other spellings of the table's names in files, beside those of `spellings`.
SYNONYMS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"^pos_embedding$", "Transformer/posembed_input/pos_embedding"),  # big_vision without stacked blocks
        (r"^Transformer/posembed_input/pos_embedding$", "pos_embedding"),  # the released files' with stacked blocks
        # big_vision's ViT-G had its MAP head at the root.
        (r"^(probe|MlpBlock_0|MultiHeadDotProductAttention_0|LayerNorm_0)(?=/|$)", r"MAPHead_0/\1"),
        (r"^blocks\.(\d+)\.gamma_([12])$", r"blocks.\1.ls\2.gamma"),  # DeiT III
        (
            r"^blocks\.(\d+)\.attn\.rel_pos\.relative_position_bias_table$",
            r"blocks.\1.attn.relative_position_bias_table",
        ),
        (r"^register_tokens$", "reg_token"),  # DINOv2
        (r"^(blocks\.\d+)\.(lambda_[qk]\d|sub_norm\.weight)$", r"\1.attn.\2"),  # timm's parallel blocks
        (r"^(blocks\.\d+)\.in_norm\.", r"\1.norm1."),
        (r"^(blocks\.\d+)\.ls\.gamma$", r"\1.ls1.gamma"),
        (r"^(blocks\.\d+)\.attn_out_proj\.", r"\1.attn.proj."),
        (r"^(blocks\.\d+)\.mlp_out_proj\.", r"\1.mlp.fc2."),
        (r"^embeds\.(cls_token|reg_token)$", r"\1"),  # timm's NaFlexVit
        (r"^embeds\.proj\.bias$", "patch_embed.proj.bias"),
        (r"^(blocks\.\d+\.mlp)\.w12\.", r"\1.fc1."),  # DINOv2's SwiGLU
        (r"^(blocks\.\d+\.mlp)\.w3\.", r"\1.fc2."),
        (r"^(blocks\.\d+\.mlp)\.lin([12])\.", r"\1.fc\2."),  # SAM
        (r"^(encoder\.layer\.\d+|layernorm)\.", r"vit.\1."),  # transformers' ViTMSN, and the last norm of its BEiT
        (r"/standardized_conv2d_\d+/", "/standardized_conv2d/"),  # TensorFlow counted BiT's layers
        (r"^patch_embed\.backbone\.(conv|norm)\.", r"patch_embed.backbone.stem.\1."),  # timm's stem without stages
    )
)
# (layout, unless, start, instead): on writing, `instead` replaces `start`, unless a name contains `unless`.
WRITTEN = (
    ("timm", None, "head_class.", "head."),
    ("timm", "backbone.stages.", "patch_embed.backbone.stem.", "patch_embed.backbone."),
    ("hf", "classifier.", "vit.", ""),
    ("hf", "classifier.", "bit.", ""),
)


@dataclass(frozen=True)
class Prefix:
    """A prefix of the names of an image model in files.

    Args:
        theirs: the prefix.
        ours: the prefix of the same names in the table.
        tower: whether names without the prefix belong to other models in the file, except classifiers.
    """

    theirs: str
    ours: str = ""
    tower: bool = False


PREFIXES = (
    Prefix(""),
    Prefix("opt/target/"),
    Prefix("params/"),
    Prefix("params/img/"),
    Prefix("img/"),
    *(Prefix(theirs, tower=True) for theirs in ("visual.", "visual.trunk.")),  # OpenCLIP, OpenAI's CLIP
    Prefix("image_encoder.", tower=True),  # Meta's SAM
    Prefix("vision_encoder.", "vit.", tower=True),  # transformers' SAM
    Prefix("", "vit."),  # transformers' ViTModel
    *(
        Prefix(f"{theirs}.", "vit.")
        for theirs in ("deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "ijepa", "beit", "data2vec_vision")
    ),
    *(Prefix(theirs, "vit.", tower=True) for theirs in ("vision_model.", "vision_tower.vision_model.")),
    Prefix("", "bit."),  # and BitModel
)
# Classifiers and projections beside a tower.
BESIDE_TOWER = re.compile(r"classifier\.|head\.|visual_projection\.|visual\.head\.proj\.")
# Prefixes of wrappers and training scripts, in any order: DataParallel, Lightning, DINO, MoCo v3, TIPS, TimmWrapper.
WRAPPERS = re.compile(r"(?:(?:module|model|net|network|backbone|base_encoder|vision_encoder|timm_model)\.)+")
# Prefixes that torch adds inside any module: `torch.compile`, FSDP, checkpointed activations.
INSIDE = re.compile(r"(?<![^.])(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
MAX_INDEX = 999  # highest index of blocks, stages and units in a name
# Arrays that are no weights of the image model: optimizer state, counters, a text tower.
IGNORED = re.compile(
    r"^(opt(?!/target/)|extra|states?|chrono|step|epoch|params/txt|params/t|params/b|txt|t|b)(/|$)"
    r"|^(\w+\.)*embeddings\.mask_token$"  # DINOv2's, for training
    r"|(^|\.)rope_embed\.periods$"  # DINOv3's frequencies, which are computed
)
# Parts of other models in files of pre-training, on which the encoder's output does not depend. They are left out, with
# a printed note: decoders, projectors and predictors of self-distillation, copies, language models.
ASIDE = re.compile(
    r"((module|model|net|network|backbone|base_encoder|encoder|vit|params)[./])*("
    r"decoder\w*|mask_tokens?|lm_head|predictor|momentum_encoder|projector|(dino|ibot)_head|local_cls_norm|"
    r"prompt_encoder|mask_decoder|shared_image_embedding|"  # SAM's
    r"head\.(\d+|mlp|last_layer|layers)|llm|language_model|multi_modal_projector|text_model|text_projection|"
    r"logit_scale|logit_bias"
    r")([./]|$)"
)

# Arrays that `strict=False` ignores, because the encoder's output does not depend on them: heads, decoders and
# training state.
OPTIONAL = re.compile(
    r"((module|model|vit|backbone|params)[./])*("
    r"decoder\w*|mask_tokens?|embeddings\.mask_token|llm|"
    r"head|heads|fc|classifier|lm_head|predictor|projector|logit_scale|logit_bias|"
    r"optimizer|lr_scheduler|scaler|criterion"
    r")([./]|$)"
)


@dataclass(frozen=True)
class Place:
    """The row, cell and name of one array of a file in the table of names, with its indices."""

    row: Row
    cell: Cell
    part: int
    indices: tuple[tuple[str, int], ...]

    @property
    def ours(self) -> str:
        """Return the path of our variable."""
        return format_name(self.row.ours, dict(self.indices))


def format_name(template: str, indices: dict[str, int]) -> str:
    """Fill the indices of block, stage and unit, which count from one, into a template."""
    from_zero = {f"{key}0": value - 1 for key, value in indices.items() if key in "su"}
    return template.format(**indices, **from_zero)


def find_place(family: str, layout: str, name: str) -> Place | None:
    """Return the place of a layout's name in the table of a family; None if the table has no such name."""
    patterns = _patterns(family, layout)
    for spelling, shape in _spellings(name):
        for pattern, row, cell, part in patterns.get(shape, ()):
            match = pattern.fullmatch(spelling)
            if match:
                return Place(row, cell, part, _indices(match.groupdict()))
    return None


def spell(layout: str, names: list[str]) -> dict[str, str]:
    """Map the table's names of a file to the names that the layout's library writes."""
    spelt = {name: name for name in names}
    for written_by, unless, start, instead in WRITTEN:
        if written_by == layout and not (unless and any(unless in name for name in names)):
            spelt = {
                name: instead + known.removeprefix(start) if known.startswith(start) else known
                for name, known in spelt.items()
            }
    return spelt


@functools.lru_cache(maxsize=8192)
def _spellings(name: str) -> tuple[tuple[str, str], ...]:
    """Return a name and its synonyms, each with its shape: the name with # for numbers."""
    spellings = dict.fromkeys([name, *in_table(name), *(pattern.sub(new, name) for pattern, new in SYNONYMS)])
    return tuple((spelling, shape_of(spelling)) for spelling in spellings)


def _indices(groups: dict[str, str]) -> tuple[tuple[str, int], ...]:
    indices = {key[0]: int(value) + (key[1:] == "0") for key, value in groups.items()}
    return tuple(sorted(indices.items()))


@functools.cache
def _patterns(family: str, layout: str) -> dict[str, list[tuple]]:
    """Return the patterns of a column by the shape of the name, in which # stands for numbers."""
    known = defaultdict(list)
    for row in TABLES[family]:
        cell = row.cells.get(layout)
        for part, name in enumerate(cell.names if cell else ()):
            pattern, shape = name_pattern(name.partition("[")[0])
            known[shape].append((re.compile(pattern), row, cell, part))
    return dict(known)
