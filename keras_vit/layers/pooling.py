"""Pool the tokens of an image into one vector, and classify it.

B batch, N tokens, D width, h heads, d = D / h.
"""

import math

import keras
from keras import ops

from keras_vit.layers.base import Configured, Dense, Layer, flatten_tokens, require_rank
from keras_vit.layers.dense import AdaptableDense
from keras_vit.layers.layernorm import LayerNorm
from keras_vit.layers.mlp import MLPBlock
from keras_vit.layers.override import override_of


class TokenPooling(Layer):
    """Returns the class token, which is the first: (B, N, D) -> (B, D)."""

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def call(self, tokens):
        return tokens[:, 0]


class MeanPooling(TokenPooling):
    """Returns the mean of the patch tokens (appendix D.3).

    Args:
        prefix_tokens: number of tokens in front of the patches (a class token); they are skipped.

    Input shape: (B, N, D). Output shape: (B, D).
    """

    def __init__(self, prefix_tokens: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens

    def call(self, tokens):
        return ops.mean(tokens[:, self.prefix_tokens :], axis=1)


class AttentionPooling(TokenPooling):
    """Multi-head attention pooling: one learned query attends to all tokens, then a residual MLP (arXiv 2106.04560).

    Args:
        num_heads: h; must divide the width.
        mlp_dim: width between the MLP's dense layers.
        activation: activation of the MLP.
        layer_norm_epsilon: added to the variance of the norm.

    Input shape: (B, N, D). Output shape: (B, D).

    Raises:
        ValueError: `num_heads` does not divide the width.
    """

    def __init__(
        self, num_heads: int, mlp_dim: int, activation: str = "gelu_tanh", layer_norm_epsilon: float = 1e-6, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape):
        super().build(input_shape)
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads expected a divisor of the width {width}, received {self.num_heads}.")
        self.probe = self.add_weight(name="probe", shape=(1, 1, width), initializer="glorot_uniform")
        # Key and value share one matmul; each half is initialised as the D x D matrix of the official code.
        glorot = keras.initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))
        self.key_value = self.make_part(Dense, 2 * width, kernel_initializer=glorot, name="key_value")
        self.query, self.out = (self.make_part(Dense, width, name=name) for name in ("query", "out"))
        for dense in (self.query, self.key_value, self.out):
            dense.build((None, width))
        self.norm = self.make_part(LayerNorm, self.layer_norm_epsilon, name="norm")
        self.norm.build((None, 1, width))
        self.mlp = self.make_part(MLPBlock, self.mlp_dim, self.activation, name="mlp")
        self.mlp.build((None, 1, width))

    def attention_weights(self, tokens):
        """Return the attention weights of the probe: (B, N, D) -> (B, h, 1, N)."""
        return self._attend(tokens)[0]

    def _attend(self, tokens):
        """Return the attention weights (B, h, 1, N) and the values (B, h, N, d)."""
        size = tokens.shape[-1] // self.num_heads
        query = ops.reshape(self.query(flatten_tokens(self.probe)), (1, self.num_heads, 1, size)) * size**-0.5
        split = (-1, ops.shape(tokens)[1], 2, self.num_heads, size)
        key_value = ops.reshape(self.key_value(flatten_tokens(tokens)), split)
        key_value = ops.transpose(key_value, (2, 0, 3, 1, 4))  # (2, B, h, N, d)
        key, value = key_value[0], key_value[1]
        return ops.softmax(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), axis=-1), value

    def call(self, tokens):
        width = tokens.shape[-1]
        weights, value = self._attend(tokens)
        capture = override_of(self, "attention_weights")
        weights = capture(weights) if capture else weights
        attended = ops.matmul(weights, value)  # (B, h, 1, d)
        pooled = ops.reshape(self.out(ops.reshape(attended, (-1, width))), (-1, 1, width))
        return (pooled + self.mlp(self.norm(pooled)))[:, 0]


class Head(Configured, AdaptableDense):
    """Linear classifier, initialised to zeros, so that every class starts equally likely (appendix B.1.1).

    Args:
        units: number of classes.
        bias_constant: initial bias; big_vision pre-trains with -10 and a sigmoid loss on 21,843 classes.
        labels: names of the classes in order, saved in the model for exports and predictions.
        conversion: why loaded weights did not fill this layer; saved in the config.

    Input shape: (B, D). Output shape: (B, units).

    Raises:
        ValueError: the number of `labels` is not `units`, or another argument of `keras.layers.Dense` is given.
    """

    changes = AdaptableDense.changes

    def __init__(self, units: int, bias_constant: float = 0.0, labels=None, conversion: str | None = None, **kwargs):
        own = {"name", "trainable", "dtype", "quantization_config", "lora_rank", "lora_alpha"}
        if others := kwargs.keys() - own:  # arguments of a dense layer that the config would not save
            raise ValueError(f"Head expected name, trainable and dtype beside its own, received {sorted(others)}.")
        bias = keras.initializers.Constant(bias_constant)
        super().__init__(units, kernel_initializer="zeros", bias_initializer=bias, **kwargs)
        self.bias_constant = bias_constant
        self.conversion = conversion
        self.labels = None if labels is None else tuple(labels)
        if labels is not None and len(self.labels) != units:
            raise ValueError(f"labels expected {units} names, one for each class, received {len(self.labels)}.")
