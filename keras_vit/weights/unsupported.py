"""Recognise models with unsupported parts by the names of a file's arrays.

The names come from timm, transformers and the original repositories. A file with an unsupported part is refused before
any array is read, also with `strict=False`, because every output depends on the part.
"""

import re
from dataclasses import dataclass

from keras_vit.weights.layouts import IGNORED, OPTIONAL
from keras_vit.weights.timm_architectures import find_timm_architecture


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

    def shown_by(self, names) -> str | None:
        """Return the first name that shows the part, or None."""
        pattern = re.compile(self.pattern)
        for name in names:
            match = pattern.search(name)
            if not match or any(match.expand(other) in names for other in self.without):
                continue
            if self.required is None or match.expand(self.required) in names:
                return name
        return None


_AT = r"(?:^|[./])"  # start of a component of a name
_CLIP = ("pre_layrnorm.weight", "vision_model.pre_layrnorm.weight")  # of transformers' CLIP, spelt so
FEATURES = (
    Feature("LayerScale", _AT + r"((?<!encoder\.)layer\.\d+\.layer_scale\d\.lambda1|lambda_\d)$"),
    Feature("register tokens", _AT + r"storage_tokens$"),
    Feature("a distillation token", _AT + r"(dist_token|distillation_token|head_dist|distillation_classifier)(\.|$)"),
    Feature("detection tokens", _AT + r"detection_tokens$"),
    Feature("relative position bias", _AT + r"(relative_position_bias\w*|relative_position_index|\w*rel_pos\w*)(\.|$)"),
    Feature("windowed attention with a neck (SAM)", r"(?:^|\.)neck\."),
    Feature("rotary position embedding (RoPE)", _AT + r"(rope\w*|rotary\w*|freqs_(cos|sin|cis))(\.|$)"),
    Feature("a gated MLP (SwiGLU)", _AT + r"(mlp|ffn)\.(fc1_[gx]|gate_proj|w12|w[123]|weights_in)\."),
    Feature("query, key and value apart", _AT + r"\w*(attn|attention)\.[qkv]_proj\.", without=_CLIP),
    Feature("biases of query and value alone", _AT + r"attn\.[qv]_bias$"),
    Feature("a norm of query and key", _AT + r"([qk]_norm|(query|key)_(norm|ln))[./]"),
    Feature("a norm inside attention or the MLP", _AT + r"(attn\.(norm|inner_attn_ln)|mlp\.(norm|ffn_ln)|ffn_ln)\."),
    Feature("a norm before the first block (CLIP)", _AT + r"(ln_pre|pre_layernorm)\."),
    Feature("a norm in the patch embedding", r"(?:^|\.)patch_embed\.norm\."),
    Feature("parallel blocks", r"(?:^|\.)blocks\.\d+\.(attns|ffns|in_norm|in_proj|attn_out_proj|mlp_out_proj)\."),
    Feature("differential attention", r"(?:^|\.)lambda_[qk]\d$"),
    Feature("class attention", r"(?:^|\.)(blocks_token_only|cls_attn_blocks)\."),
    Feature("talking heads", r"(?:^|\.)attn\.proj_[lw]\."),
    Feature("a linear patch embedding (NaFlex)", r"(?:^|\.)embeds\."),
    Feature(  # EfficientNet's names begin with the stem's
        "batch norm",
        r"^((?:(?:module|model)\.)*)(?:.*\.)?running_(mean|var)$",
        without=(r"\1conv_stem.weight",),
    ),
    Feature("a convolutional stem", r"(?:^|\.)patch_embed\.(proj|conv\w*)\.\d+\."),
    Feature("a ResNet stem of several convolutions", r"(?:^|\.)stem\.conv1\."),
    Feature("attention pooling beside a class token", r"^(.*)attn_pool\.latent$", required=r"\1cls_token"),
    Feature("RMSNorm", r"^(.*(?<![qk]_)norm\d?)\.weight$", without=(r"\1.bias",)),
    Feature(
        "query, key and value without bias",
        r"^((.*)attn\.qkv|.*attention\.attention\.query)\.weight$",
        without=(r"\1.bias", r"\2attn.q_bias"),
    ),
    Feature("dense layers without bias", r"^(.*\.\d+\.(?:attn\.proj|mlp\.fc\d))\.weight$", without=(r"\1.bias",)),
    Feature(
        "a patch embedding without bias",
        r"^((.*?)(?:patch_embed\.proj|embeddings\.patch_embedding))\.weight$",
        without=(r"\1.bias", r"\2norm_pre.weight", *_CLIP),
    ),
    Feature("no final norm", r"^(|(?!.*stages).*\.)blocks\.0\.norm1\.weight$", (r"\1norm.weight", r"\1fc_norm.weight")),
)


def unsupported(file) -> dict[str, str]:
    """Return the unsupported parts of a file's model, each with the name that shows it.

    Args:
        file: one of `keras_vit.weights.files`.
    """
    shapes = {name: shape for name, shape in file.shapes.items() if not (IGNORED.match(name) or OPTIONAL.match(name))}
    names = {**shapes, **dict.fromkeys(file.integers)}
    signs = {feature.name: feature.shown_by(names) for feature in FEATURES}
    signs["a gated MLP (SwiGLU)"] = signs["a gated MLP (SwiGLU)"] or _packed_gate(shapes)
    signs["patches in time (video)"] = next((name for name, shape in shapes.items() if len(shape) == 5), None)
    architecture = find_timm_architecture(file.config)
    for feature in architecture.features if architecture else ():
        signs[feature] = signs.get(feature) or f"architecture {architecture.architecture}"
    return {name: sign for name, sign in signs.items() if sign}


def _packed_gate(shapes) -> str | None:
    """Return the first dense layer with a packed gate: its output is twice as wide as the second layer's input."""
    for name, shape in shapes.items():
        second = shapes.get(name.replace(".fc1.", ".fc2."), ())
        if ".mlp.fc1.weight" in name and len(shape) == len(second) == 2 and shape[0] == 2 * second[1]:
            return name
    return None


def require_supported(file) -> None:
    """Raise a ValueError that names every unsupported part of a file's model."""
    signs = unsupported(file)
    if signs:
        parts = ", ".join(f"{name} ({sign})" for name, sign in signs.items())
        raise ValueError(
            f"source expected a model that this package supports, received {file.source!r}, "
            f"whose model has unsupported parts: {parts}."
        )
