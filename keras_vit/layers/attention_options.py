"""Self-attention with options: biases of some projections, rotary positions, a bias of the logits.

B batch, N tokens, D width, h heads, d = D / h.
"""

from typing import Any

from keras import ops

from keras_vit.layers.attention import MultiHeadSelfAttention
from keras_vit.layers.base import flatten_tokens, unflatten_tokens
from keras_vit.layers.inner_norm import add_inner_norm
from keras_vit.layers.relative_bias import RELATIVE_BIASES
from keras_vit.layers.rope import add_frequencies, axial_frequencies, rotary_angles, rotate

QKV_BIASES = ("qkv", "qv", "none")


class AttentionWithOptions(MultiHeadSelfAttention):
    """Multi-head self-attention with options of later papers. Kernels that replace plain attention skip this class.

    Args:
        num_heads: h; must divide the width.
        attention_dropout_rate: dropout on the attention weights, in [0, 1).
        relative_positions: as in `MultiHeadSelfAttention`.
        inner_norm: kind of the norm before the output's dense layer (BEiT-3), `layer` or `rms`; None for none.
        layer_norm_epsilon: epsilon of that norm.
        out_bias: whether the output's dense layer has a bias.
        qkv_bias: which projections have a bias: `qkv`, `qv` (query and value, as in BEiT) or `none`.
        rope: fields of `keras_vit.Rope`, by which queries and keys are rotated; None for no rotation.
        relative_bias: bias of the logits for each offset between two patches: `table` (BEiT), `mlp` (Swin V2), or None.
        relative_bias_dim: width between the dense layers of the `mlp`.
        grid: (height, width) in patches, for `rope` and `relative_bias`.
        prefix_tokens: number of tokens in front of the patches, which are not rotated.

    Input: tokens (B, N, D) and, with `rope` and an image size that is free at run time, the embedded patches
    (B, height, width, any), whose grid is used. Output shape: (B, N, D).

    Raises:
        ValueError: `num_heads` does not divide the width, an option is unknown, or with `rope` the width of a head is
            no multiple of 4.
    """

    def __init__(
        self,
        num_heads: int,
        attention_dropout_rate: float = 0.0,
        relative_positions: bool = False,
        inner_norm: str | None = None,
        layer_norm_epsilon: float = 1e-6,
        out_bias: bool = True,
        qkv_bias: str = "qkv",
        rope: dict | None = None,
        relative_bias: str | None = None,
        relative_bias_dim: int = 128,
        grid: tuple[int, int] | None = None,
        prefix_tokens: int = 0,
        **kwargs: Any,
    ):
        super().__init__(num_heads, attention_dropout_rate, relative_positions, **kwargs)
        self.inner_norm = inner_norm
        self.layer_norm_epsilon = layer_norm_epsilon
        self.out_bias = out_bias
        if qkv_bias not in QKV_BIASES:
            raise ValueError(f"qkv_bias expected one of {QKV_BIASES}, received {qkv_bias!r}.")
        self.qkv_bias = qkv_bias
        if relative_bias not in (None, *RELATIVE_BIASES):
            raise ValueError(f"relative_bias expected one of {(None, *RELATIVE_BIASES)}, received {relative_bias!r}.")
        self.rope = rope
        self.relative_bias = relative_bias
        self.relative_bias_dim = relative_bias_dim
        self.adds_to_logits = relative_positions or relative_bias is not None
        self.grid = grid and tuple(grid)
        self.prefix_tokens = prefix_tokens
        self.use_bias = qkv_bias == "qkv"

    def build(self, tokens_shape, patches_shape=None):
        super().build(tokens_shape)
        width = tokens_shape[-1]
        self.norm = add_inner_norm(self, self.inner_norm, self.layer_norm_epsilon, width)
        if self.qkv_bias == "qv":
            self.query_bias = self.add_weight(name="query_bias", shape=(width,), initializer="zeros")
            self.value_bias = self.add_weight(name="value_bias", shape=(width,), initializer="zeros")
        size = width // self.num_heads
        if self.rope and size % 4:
            raise ValueError(f"rope expected heads of a width that is a multiple of 4, received {size}.")
        if self.rope and self.rope["learned"]:
            self.frequencies = add_frequencies(self, size)
        if self.relative_bias:
            hidden = {"hidden": self.relative_bias_dim} if self.relative_bias == "mlp" else {}
            sizes = (self.num_heads, self.grid, self.prefix_tokens)
            self.bias = self.make_part(RELATIVE_BIASES[self.relative_bias], *sizes, **hidden, name="bias")
            self.bias.build(None)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def _project(self, tokens, grid=None):
        flat = self.qkv(flatten_tokens(tokens))
        if self.qkv_bias == "qv":
            query, value = (ops.convert_to_tensor(bias) for bias in (self.query_bias, self.value_bias))
            flat = flat + ops.concatenate([query, ops.zeros_like(query), value])
        qkv = self.by_head(flat, tokens)
        if not self.rope:
            return qkv
        query, key, value = ops.unstack(qkv, 3, axis=2)
        frequencies = self.frequencies if self.rope["learned"] else axial_frequencies(self.rope, query.shape[-1])
        angles = rotary_angles(self.rope, grid or self.grid, self.prefix_tokens, frequencies)
        cos, sin = ops.cos(angles), ops.sin(angles)
        query, key = (rotate(x, cos, sin, self.rope["pairs"]) for x in (query, key))
        return ops.stack([query, key, value], axis=2)

    def _logits(self, query, key):
        logits = super()._logits(query, key)
        return logits + ops.cast(self.bias.bias(), logits.dtype) if self.relative_bias else logits

    def call(self, tokens, patches=None, class_token_only=False, training=False):
        if class_token_only:
            raise ValueError(
                f"class_token_only expected False in {self.name}, an attention with options, received True."
            )
        grid = None if patches is None else ops.shape(patches)[1:3]
        attended = ops.reshape(self._attend(self._project(tokens, grid), training), (-1, tokens.shape[-1]))
        attended = attended if self.norm is None else self.norm(attended)
        return unflatten_tokens(self.out(attended), tokens)
