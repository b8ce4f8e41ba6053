"""Self-attention with options: biases of some projections, rotary positions, a bias of the logits, windows.

B batch, N tokens, D width, h heads, d = D / h.
"""

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_vit.layers.attention import MultiHeadSelfAttention
from keras_vit.layers.base import flatten_tokens, unflatten_tokens
from keras_vit.layers.class_token_attention import attend_from_unrotated_token
from keras_vit.layers.differential import add_lambdas, attend_differentially, difference, halves
from keras_vit.layers.inner_norm import add_inner_norm, norm_class
from keras_vit.layers.override import override_of
from keras_vit.layers.relative_bias import RELATIVE_BIASES
from keras_vit.layers.rope import (
    add_frequencies,
    axial_frequencies,
    coordinate_changes,
    is_augmented,
    rotary_angles,
    rotate,
)
from keras_vit.layers.windows import change_through_grid, from_windows, grid_weights, to_windows

QKV_BIASES = ("qkv", "qv", "none")


def has_class_token_only(attention: MultiHeadSelfAttention) -> bool:
    """Return whether an attention can compute the class token only; a subclass may compute anything."""
    if type(attention) is not AttentionWithOptions:
        return type(attention) is MultiHeadSelfAttention and not attention.relative_positions
    others = attention.adds_to_logits or attention.differential is not None or attention.heads_per_key > 1
    turned = attention.rope and not attention.prefix_tokens  # the class token is not rotated
    return not (others or turned or attention.window)


def _given(**arguments: Any) -> list[str]:
    """Return the names of the arguments that are not empty."""
    return [name for name, value in arguments.items() if value]


class AttentionWithOptions(MultiHeadSelfAttention):
    """Multi-head self-attention with options of later papers.

    The attention weights of differential attention can be negative, and the sum of a row is 1 - lambda.

    Args:
        num_heads: h; must divide the width.
        attention_dropout_rate: dropout on the attention weights, in [0, 1).
        relative_positions: as in `MultiHeadSelfAttention`.
        inner_norm: kind of the norm before the output's dense layer (BEiT-3), `layer` or `rms`; None for none.
        layer_norm_epsilon: epsilon of that norm.
        out_bias: whether the output's dense layer has a bias.
        qkv_bias: which projections have a bias: `qkv`, `qv` (query and value, as in BEiT) or `none`.
        rope: fields of `keras_vit.Rope`, by which queries and keys are rotated; None for no rotation.
        relative_bias: bias of the logits for each offset between two patches: `table` (BEiT), `mlp` (Swin V2),
            `shared_mlp` (an input of the layer), `decomposed` (SAM), or None.
        relative_bias_dim: width between the dense layers of the `mlp`.
        grid: (height, width) in patches, for `rope`, `relative_bias` and `window`.
        prefix_tokens: number of tokens in front of the patches, which are not rotated.
        qk_norm: kind of the norms of each head's query and key, `layer` or `rms`; None for none.
        heads_per_key: number of query heads that share a key and a value (grouped-query attention, arXiv 2305.13245).
        differential: initial lambda of differential attention; None for plain attention.
        masked: whether padded tokens are left out (NaFlex). The output of a `PaddingMask` is then the second input.
        window: side in patches of the windows within which a patch attends; 0 for attention to all patches. The grid
            is padded with zeros to whole windows, and patches attend to the padding, too (SAM).

    Input: tokens (B, N, D). With `rope` and an image size that is free at run time, also the embedded patches
    (B, height, width, any), whose grid is used. With `relative_bias="shared_mlp"`, the output of a
    `SharedRelativeBias` instead, and with `masked` that of a `PaddingMask`.
    Output shape: (B, N, D); with `class_token_only` (B, 1, D).

    Raises:
        ValueError: `num_heads` does not divide the width, an option is unknown, two options exclude each other, or with
            `rope` the width of a head is no multiple of 4.
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
        qk_norm: str | None = None,
        heads_per_key: int = 1,
        differential: float | None = None,
        masked: bool = False,
        window: int = 0,
        **kwargs: Any,
    ):
        super().__init__(num_heads, attention_dropout_rate, relative_positions, **kwargs)
        self.inner_norm = inner_norm
        self.layer_norm_epsilon = layer_norm_epsilon
        self.out_bias = out_bias
        if qkv_bias not in QKV_BIASES:
            raise ValueError(f"qkv_bias expected one of {QKV_BIASES}, received {qkv_bias!r}.")
        self.qkv_bias = qkv_bias
        biases = (None, *RELATIVE_BIASES, "shared_mlp")
        if relative_bias not in biases:
            raise ValueError(f"relative_bias expected one of {biases}, received {relative_bias!r}.")
        if num_heads % heads_per_key:
            raise ValueError(f"heads_per_key expected a divisor of num_heads={num_heads}, received {heads_per_key}.")
        others = {"rope": rope, "relative_positions": relative_positions, "relative_bias": relative_bias}
        if differential is not None and (found := _given(**others, qk_norm=qk_norm)):
            raise ValueError(f"differential expected None with {found[0]}, received {differential}.")
        if masked and (found := _given(**others, window=window)):
            raise ValueError(f"masked expected False with {found[0]}, received True.")
        self.masked = masked
        others["relative_bias"] = relative_bias not in (None, "decomposed")
        if window and (found := _given(**others, differential=differential is not None, prefix_tokens=prefix_tokens)):
            raise ValueError(f"window expected 0 with {found[0]}, received {window}.")
        self.rope: Any = rope
        self.window = window
        self.relative_bias = relative_bias
        self.relative_bias_dim = relative_bias_dim
        self.adds_to_logits = relative_positions or relative_bias is not None or masked
        self.grid: Any = grid and tuple(grid)
        self.prefix_tokens = prefix_tokens
        self.use_bias = qkv_bias == "qkv"
        self.qk_norm = qk_norm
        self.heads_per_key = heads_per_key
        self.qkv_widths = 1 + 2 / heads_per_key
        self.differential = differential

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
        if self.rope and is_augmented(self.rope):
            self.seed_generator = keras.random.SeedGenerator()
        if self.qk_norm:
            for name in ("query_norm", "key_norm"):
                norm = self.make_part(norm_class(self.qk_norm), self.layer_norm_epsilon, name=name)
                setattr(self, name, norm)
                norm.build((None, size))
        if self.differential is not None:
            add_lambdas(self, size)
        if self.relative_bias in RELATIVE_BIASES:
            hidden = {"hidden": self.relative_bias_dim} if self.relative_bias == "mlp" else {}
            sizes = (self.num_heads, (self.window,) * 2 if self.window else self.grid, self.prefix_tokens)
            self.bias = self.make_part(RELATIVE_BIASES[self.relative_bias], *sizes, **hidden, name="bias")
            self.bias.build((None, size))

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def project(self, tokens: Any, grid: Any = None, training: bool = False) -> Any:
        """Return query, key and value in one tensor: (B, N, D) -> (B, N, 3, h, d). The `grid` is for rotations."""
        flat = self.qkv(flatten_tokens(tokens))
        if self.qkv_bias == "qv":
            flat = flat + self.all_biases()
        if not self.rope and self.qk_norm is None and self.heads_per_key == 1:
            return self.by_head(flat, tokens)
        query, key, value = self._heads(flat, tokens)
        if self.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rope:
            query, key = self.rotated([query, key], grid, training)
        if self.heads_per_key > 1:  # (B, N, h / heads_per_key, d) -> (B, N, h, d)
            repeated = (ops.stack([x] * self.heads_per_key, axis=3) for x in (key, value))
            key, value = (ops.reshape(x, ops.shape(query)) for x in repeated)
        return ops.stack([query, key, value], axis=2)

    def all_biases(self) -> Any:
        """Return the biases of query, key and value in one tensor, (3 D,); None without biases."""
        if self.qkv_bias == "qv":
            query, value = (ops.convert_to_tensor(bias) for bias in (self.query_bias, self.value_bias))
            return ops.concatenate([query, ops.zeros_like(query), value])
        return ops.convert_to_tensor(self.qkv.bias) if self.use_bias else None

    def _heads(self, flat, tokens):
        """Split the output of `qkv` into query (B, N, h, d), and key and value (B, N, h / heads_per_key, d)."""
        size, keys = tokens.shape[-1] // self.num_heads, self.num_heads // self.heads_per_key
        parts = ops.split(flat, [self.num_heads * size, (self.num_heads + keys) * size], axis=-1)
        shape = (-1, ops.shape(tokens)[1])
        counts = (self.num_heads, keys, keys)
        return [ops.reshape(part, (*shape, count, size)) for part, count in zip(parts, counts, strict=True)]

    def rotated(self, values: list, grid: Any, training: bool) -> list:
        """Rotate queries and keys, each (B, N, h, d), by the places of their patches."""
        frequencies = self.frequencies if self.rope["learned"] else axial_frequencies(self.rope, values[0].shape[-1])
        changes = coordinate_changes(self.rope, self.seed_generator) if training and is_augmented(self.rope) else None
        angles = rotary_angles(self.rope, grid or self.grid, self.prefix_tokens, frequencies, changes)
        cos, sin = ops.cos(angles), ops.sin(angles)
        turn = override_of(self, "rotate", training) or partial(rotate, pairs=self.rope["pairs"])
        return [turn(x, cos, sin) for x in values]

    def split(self, qkv: Any) -> tuple[Any, Any, Any]:
        """Split as plain attention does. Differential attention has 2 h queries and keys of width d / 2."""
        if self.differential is None:
            return super().split(qkv)
        query, key, value = ops.unstack(qkv, 3, axis=2)  # each (B, N, h, d)
        query, key = halves(query), halves(key)  # (B, N, 2 h, d / 2)
        query = ops.transpose(query, (0, 2, 1, 3)) * query.shape[-1] ** -0.5
        return query, ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))

    def _logits(self, query, key, shared=None):
        logits = super()._logits(query, key)
        if self.relative_bias is None and not self.masked:
            return logits
        bias = self.bias.bias(query) if self.relative_bias in RELATIVE_BIASES else shared
        return logits + ops.cast(bias, logits.dtype)

    def attention_weights(self, tokens: Any, patches: Any = None) -> Any:
        """Return the attention weights: (B, N, D) -> (B, h, N, N). `patches` are as in `call`."""
        if (self.masked or self.relative_bias == "shared_mlp") and patches is None:
            expected = "the output of a PaddingMask" if self.masked else "the shared bias of the logits"
            raise ValueError(f"patches expected {expected} for {self.name}, received None.")
        windows = to_windows(tokens, self.grid, self.window) if self.window else tokens
        query, key, _ = self.split(self.project(windows))
        weights = ops.softmax(self._logits(query, key, patches), axis=-1)
        weights = grid_weights(weights, self.grid, self.window) if self.window else weights
        return weights if self.differential is None else difference(self, weights)

    def _attend(self, qkv, training, shared=None):
        capture = override_of(self, "attention_weights", training)
        if self.differential is None and shared is None and not (self.window and capture):
            return super()._attend(qkv, training)
        query, key, value = self.split(qkv)
        weights = ops.softmax(self._logits(query, key, shared), axis=-1)
        if self.differential is not None:
            return attend_differentially(self, weights, value, training)
        if self.window:
            weights = change_through_grid(weights, capture, self.grid, self.window)
        elif capture:
            weights = capture(weights)
        weights = self.attention_dropout(weights, training=training)
        return ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))

    def call(self, tokens, patches=None, class_token_only=False, training=False):
        if self.masked and patches is None:
            raise ValueError(f"patches expected the output of a PaddingMask for {self.name}, received None.")
        shared = patches if self.masked or self.relative_bias == "shared_mlp" else None
        grid = None if patches is None else ops.shape(patches)[1:3]
        if class_token_only:
            attended = attend_from_unrotated_token(self, tokens, grid, training)
            return self.out(attended if self.norm is None else self.norm(attended))[:, None]
        forward = None if patches is not None else override_of(self, "forward", training)
        if forward and not override_of(self, "attention_weights", training):
            return forward(tokens)
        tokens = to_windows(tokens, self.grid, self.window) if self.window else tokens
        attended = self._attend(self.project(tokens, grid, training), training, shared)
        attended = ops.reshape(attended, (-1, tokens.shape[-1]))
        attended = attended if self.norm is None else self.norm(attended)
        attended = unflatten_tokens(self.out(attended), tokens)
        return from_windows(attended, self.grid, self.window) if self.window else attended
