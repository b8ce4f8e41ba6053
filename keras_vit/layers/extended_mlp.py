"""An MLP with a gate, with a norm before its last dense layer, without biases, or with a parallel bottleneck.

B batch, N tokens, D width, M MLP width. Matrix products use flattened tokens (B * N, D).
"""

from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Dense, Layer, flatten_tokens, require_rate, unflatten_tokens
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.inner_norm import add_inner_norm
from keras_vit.layers.mlp import activation_function

ADAPTER_SCALE = 0.1  # of the AdaptFormer paper


class ExtendedMLP(Layer):
    """An MLP with a gate, with a norm before its last dense layer, without biases, or with a parallel bottleneck.

    With a gate, the first dense layer returns the gate and the values side by side, and the hidden layer is
    activation(gate) * values (GLU variants, arXiv 2002.05202; SwiGLU with the activation `silu`).

    With an `adapter_dim`, the output is mlp(x) + 0.1 * up(relu(down(x))) (AdaptFormer, arXiv 2205.13535, equation 3).
    `up` starts at zero.

    Args:
        mlp_dim: M, the width of the hidden layer.
        activation: `gelu_tanh`, `gelu`, `quick_gelu`, or an activation of Keras.
        dropout_rate: rate after the hidden layer and after the last dense layer, in [0, 1).
        gated: whether the hidden layer has a gate.
        inner_norm: kind of the norm of the hidden layer, `layer` or `rms`; None for none.
        layer_norm_epsilon: epsilon of that norm.
        use_bias: whether the dense layers have a bias.
        adapter_dim: width of the parallel bottleneck; 0 for none.

    Input: tokens (B, N, D), and patches as in `MLPBlock`, which are ignored. Output shape: (B, N, D).

    Raises:
        ValueError: `dropout_rate` is out of range, or the activation or the norm is unknown.
    """

    def __init__(
        self,
        mlp_dim: int,
        activation: str = "silu",
        dropout_rate: float = 0.0,
        gated: bool = True,
        inner_norm: str | None = None,
        layer_norm_epsilon: float = 1e-6,
        use_bias: bool = True,
        adapter_dim: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.dropout_rate = require_rate("dropout_rate", dropout_rate)
        self.gated = gated
        self.inner_norm = inner_norm
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        self.adapter_dim = adapter_dim
        self.activate = activation_function(activation)

    def build(self, tokens_shape, patches_shape=None):
        width = tokens_shape[-1]
        for name, size, units in (("fc1", width, (1 + self.gated) * self.mlp_dim), ("fc2", self.mlp_dim, width)):
            tiny = keras.initializers.RandomNormal(stddev=1e-6)
            dense = self.make_part(Dense, units, use_bias=self.use_bias, bias_initializer=tiny, name=name)
            setattr(self, name, dense)
            dense.build((None, size))
        self.norm = add_inner_norm(self, self.inner_norm, self.layer_norm_epsilon, self.mlp_dim)
        if self.adapter_dim:
            self.down = self.make_part(
                Dense, self.adapter_dim, activation="relu", kernel_initializer="he_uniform", name="adapter_down"
            )
            self.up = self.make_part(Dense, width, kernel_initializer="zeros", name="adapter_up")
            self.down.build((None, width))
            self.up.build((None, self.adapter_dim))
        self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def call(self, tokens, patches=None, training=False):
        flat = flatten_tokens(tokens)
        hidden = self.fc1(flat)  # (B * N, M), gated (B * N, 2 M)
        if self.gated:
            gate, values = ops.split(hidden, 2, axis=-1)
            hidden = self.activate(gate) * values
        else:
            hidden = self.activate(hidden)
        hidden = self.dropout(hidden, training=training)
        hidden = hidden if self.norm is None else self.norm(hidden)
        hidden = self.dropout(self.fc2(hidden), training=training)
        hidden = hidden + ADAPTER_SCALE * self.up(self.down(flat)) if self.adapter_dim else hidden
        return unflatten_tokens(hidden, tokens)
