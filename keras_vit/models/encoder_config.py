"""Settings that all layers of an encoder share, in addition to the row."""

import math
import numbers
from dataclasses import asdict, dataclass, field

import keras

from keras_vit.layers import AxialBlock, SharedRelativeBias, require_rate
from keras_vit.layers.block_kinds import BLOCKS
from keras_vit.layers.inner_norm import norm_class


@dataclass(frozen=True)
class EncoderConfig:
    """Settings shared by all layers of an encoder.

    Args:
        patch_size: (height, width) of a patch in pixels, or in cells of the stem's map.
        prefix: number of tokens of each kind in front of the patches, by the names of `PREFIX_LAYERS`.
        norm_kind: kind of all norms, as the row's `norm`.
        activation: activation of the MLPs.
        layer_norm_epsilon: epsilon of all layer norms.
        dropout_rate: rate after the position embedding and every dense layer but query, key and value, in [0, 1).
        attention_dropout_rate: rate on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, in [0, 1).
        policy: dtype policy of all layers.

    Raises:
        ValueError: a rate or the epsilon is out of range.
    """

    patch_size: tuple[int, int]
    prefix: dict[str, int]
    norm_kind: str = "layer"
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-6
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    drop_path_rate: float = 0.0
    policy: object = field(default_factory=keras.config.dtype_policy)

    def __post_init__(self):
        for name in ("dropout_rate", "attention_dropout_rate", "drop_path_rate"):
            require_rate(name, getattr(self, name))
        epsilon = self.layer_norm_epsilon
        if not isinstance(epsilon, numbers.Real) or not epsilon > 0:
            raise ValueError(f"layer_norm_epsilon expected a positive number, received {epsilon!r}.")

    def norm(self, name: str) -> keras.layers.Layer:
        """Return a norm of the encoder's kind."""
        return norm_class(self.norm_kind)(self.layer_norm_epsilon, name=name, dtype=self.policy)


def block_kind(variant) -> type:
    """Return the class of a row's encoder blocks."""
    return AxialBlock if variant.axial else BLOCKS[variant.block]


def block_inputs(patches, variant, layout, policy) -> tuple:
    """Return the inputs of the encoder blocks beside the tokens: the embedded patches, the shared bias, or none.

    Args:
        patches: the embedded patches (B, h, w, D).
        variant: the row.
        layout: `TokenLayout` of the sequence.
        policy: dtype policy of the layers.
    """
    if variant.relative_bias == "shared_mlp":
        sizes = (variant.num_heads, layout.grid, layout.prefix_tokens, variant.relative_bias_dim)
        return (SharedRelativeBias(*sizes, name="shared_bias", dtype=policy)(patches),)
    free = None in patches.shape[1:3]
    return (patches,) if variant.axial or variant.mlp_kernel_size or (free and variant.rope) else ()


def attention_options(variant, layout, i: int) -> dict | None:
    """Return the further arguments of a row's attention, as fields of `AttentionWithOptions`; None for plain attention.

    Args:
        variant: the row.
        layout: `TokenLayout` of the sequence.
        i: number of the block.
    """
    options = {} if variant.qkv_bias == "qkv" else {"qkv_bias": variant.qkv_bias}
    options |= {"inner_norm": variant.norm} if variant.attention_inner_norm else {}
    options |= {} if variant.dense_bias and variant.attention_out_bias else {"out_bias": False}
    options |= {"qk_norm": variant.norm} if variant.qk_norm else {}
    if variant.full_attention_blocks <= i < variant.depth - variant.full_attention_blocks and variant.heads_per_key > 1:
        options["heads_per_key"] = variant.heads_per_key
    if variant.differential_attention:
        options["differential"] = 0.8 - 0.6 * math.exp(-0.3 * i)  # arXiv 2410.05258, section 2.1
    if variant.rope:
        options["rope"] = asdict(variant.rope)
    if variant.relative_bias:
        options["relative_bias"] = variant.relative_bias
    if variant.relative_bias == "mlp":
        options["relative_bias_dim"] = variant.relative_bias_dim
    if variant.window and i not in variant.global_blocks:
        options["window"] = variant.window
    if variant.rope or variant.relative_bias in ("table", "mlp", "decomposed") or "window" in options:
        options |= {"grid": layout.grid, "prefix_tokens": layout.prefix_tokens}
    return options or None


def mlp_options(variant) -> dict | None:
    """Return the further arguments of a row's MLP, as fields of `ExtendedMLP`; None for a plain MLP."""
    norm = variant.norm if variant.mlp_inner_norm else None
    extended = variant.gated_mlp or norm or not variant.dense_bias
    return {"gated": variant.gated_mlp, "inner_norm": norm, "use_bias": variant.dense_bias} if extended else None
