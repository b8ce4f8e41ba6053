"""Recognise models with unsupported parts by the names of a file's arrays.

The names come from timm, transformers and the original repositories. A file with an unsupported part is refused before
any array is read, also with `strict=False`, because every output depends on the part.
"""

import re
from dataclasses import dataclass

from keras_vit.weights.layouts import ASIDE, IGNORED, OPTIONAL
from keras_vit.weights.timm_architectures import stated_options
from keras_vit.weights.transformers_models import hub_options


@dataclass(frozen=True)
class Feature:
    """A part of a model and the arrays that show it.

    Args:
        name: name of the part in papers and libraries.
        pattern: matches the names of arrays that show the part.
        without: names that must be absent from the file; `\\1` is the pattern's group.
        required: a name that must also be in the file.
    """

    name: str
    pattern: str
    without: tuple[str, ...] = ()
    required: str | None = None

    def shown_by(self, names, others=None) -> str | None:
        """Return the first name that shows the part, or None.

        Args:
            names: names among which the part is looked for.
            others: all names of the file, for `without` and `required`; None for `names`.
        """
        others = names if others is None else others
        pattern = re.compile(self.pattern)
        for name in names:
            match = pattern.search(name)
            if not match or any(match.expand(other) in others for other in self.without):
                continue
            if self.required is None or match.expand(self.required) in others:
                return name
        return None


_AT = r"(?:^|[./])"  # start of a component of a name
_CLIP = ("pre_layrnorm.weight", "vision_model.pre_layrnorm.weight")  # of transformers' CLIP, spelt so
_LAST_NORMS = tuple(rf"\1{name}.weight" for name in ("norm", "fc_norm", "neck.3", "neck"))
FEATURES = (
    Feature("LayerScale", _AT + r"(layer_scale\d\.lambda1|lambda_\d)$"),
    Feature(
        "a distillation token without a classifier", r"^(.*)dist_token$", (r"\1head_dist.weight",), r"\1head.weight"
    ),
    Feature(
        "a classifier of the class token beside a distillation token",
        r"^(?:deit\.)?embeddings\.distillation_token$",
        required="classifier.weight",
    ),
    Feature(
        "a pooler of the class token beside a distillation token",
        r"^(deit\.|)embeddings\.distillation_token$",
        required=r"\1pooler.dense.weight",
    ),
    Feature(
        "a classifier of patches before the last norm (CLIP)",
        _AT + r"pre_layrnorm\.weight$",
        required="classifier.weight",
    ),
    Feature("detection tokens", _AT + r"detection_tokens$"),
    Feature(
        "decomposed or other relative position biases",
        r"^(?!.*\.relative_position_index$)(.*[./])?(relative_position_bias\w*|relative_position_index|\w*rel_pos\w*)(\.|$)",
    ),
    Feature("windowed attention with a neck (SAM)", r"(?:^|\.)neck\."),
    Feature("rotary position embedding (RoPE)", _AT + r"(rope\w*|rotary\w*|freqs_(cos|sin|cis))(\.|$)"),
    Feature("a gated MLP (SwiGLU)", _AT + r"(mlp|ffn)\.(gate_proj|w[12])\."),
    Feature(
        "query, key and value apart",
        _AT + r"\w*(attn|attention)\.[qkv]_proj\.",
    ),
    Feature("a norm of query and key", _AT + r"([qk]_norm|(query|key)_(norm|ln))[./]"),
    Feature("a norm inside attention or the MLP", _AT + r"(attn\.inner_attn_ln|ffn_ln)\."),
    Feature("a norm before the first block (CLIP)", _AT + r"(ln_pre|pre_layernorm)\."),
    Feature("parallel attentions and MLPs of one block", r"(?:^|\.)blocks\.\d+\.(attns|ffns)\."),
    Feature("a query, key and value without bias in parallel blocks", r"(?:^|\.)blocks\.\d+\.mlp_bias$"),
    Feature("differential attention with one lambda", r"(?:^|\.)lambda_[ab]$"),
    Feature("class attention", r"(?:^|\.)(blocks_token_only|cls_attn_blocks)\."),
    Feature("talking heads", r"(?:^|\.)attn\.proj_[lw]\."),
    Feature("a norm of patches (NaFlex)", r"(?:^|\.)embeds\.norm\w*\."),
    # EfficientNet's names begin with the stem's, those of ResNetV2 have its stages, those of MobileCLIP its stem
    Feature(
        "batch norm",
        r"^((?:(?:module|model)\.)*)(?:.*\.)?running_(mean|var)$",
        without=(r"\1conv_stem.weight", r"\1stages.0.blocks.0.conv2.weight", r"\1patch_embed.backbone.2.conv.bias"),
    ),
    Feature("a convolutional stem", r"(?:^|\.)patch_embed\.(proj|conv\w*)\.\d+\."),
    Feature("a ResNet stem of several convolutions", r"(?:^|\.)\w+\.stem\.conv1\."),
    Feature("RMSNorm", r"^(.*(?<![qk]_)(?<!sub_)norm\d?)\.weight$", without=(r"\1.bias",)),
    Feature("dense layers without bias", r"^(.*\.\d+\.(?:attn\.proj|mlp\.fc\d))\.weight$", without=(r"\1.bias",)),
    Feature(
        "a patch embedding without bias",
        r"^((.*?)(?:patch_embed\.proj|embeddings\.patch_embedding))\.weight$",
        without=(r"\1.bias", r"\2norm_pre.weight", *_CLIP),
    ),
    Feature("no final norm", r"^(|(?!.*stages).*\.)blocks\.0\.norm1\.weight$", _LAST_NORMS),
)
# Parts that are supported where the config states them: elsewhere the arrays may be missing. (field, value, part)
_BY_CONFIG = (
    ("norm", "rms", "RMSNorm"),
    ("dense_bias", False, "dense layers without bias"),
    ("final_norm", False, "no final norm"),
)


def unsupported(file, placed=()) -> dict[str, str]:
    """Return the unsupported parts of a file's model, each with the name that shows it.

    Args:
        file: one of `keras_vit.weights.files`.
        placed: names that are in the table of names. They show only what they lack.
    """
    others = (IGNORED, OPTIONAL, ASIDE)
    names = [*(name for name in file.shapes if not any(part.match(name) for part in others)), *file.integers]
    rest = [name for name in names if name not in placed]
    signs = {
        feature.name: feature.shown_by(names if feature.without or feature.required else rest, file.shapes)
        for feature in FEATURES
    }
    stated = {**stated_options(file.config), **hub_options(file.config)}
    for option, value, part in _BY_CONFIG:
        if stated.get(option) == value:
            signs.pop(part)
    signs["patches in time (video)"] = next((name for name in names if len(file.shapes.get(name, ())) == 5), None)
    return {name: sign for name, sign in signs.items() if sign}


def require_supported(file, placed=()) -> None:
    """Raise a ValueError that names every unsupported part of a file's model."""
    signs = unsupported(file, placed)
    if signs:
        parts = ", ".join(f"{name} ({sign})" for name, sign in signs.items())
        raise ValueError(
            f"source expected a model that this package supports, received {file.source!r}, "
            f"whose model has unsupported parts: {parts}."
        )
