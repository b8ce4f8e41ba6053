"""The MLP of an encoder block, and its activations (section 3.1, appendix B.1).

B batch, N tokens, D width, M MLP width. Matrix products use flattened tokens (B * N, D), as in `attention.py`.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Dense, Layer, flatten_tokens, require_rate, unflatten_tokens
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.local_conv import build_local_conv, convolve_patches, require_kernel_size
from keras_vit.layers.override import override_of


def gelu_tanh(x):
    """Return the tanh approximation of GELU, as in the official code (flax's default).

    The cube is written as a product. Keras writes a power, which TensorFlow does not fuse into the matmul.
    """
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


@keras.saving.register_keras_serializable("keras_vit")  # for Keras's `Activation` layer
def gelu(x):
    """Return exact GELU, as in timm and transformers; written with erf, which ONNX has."""
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def quick_gelu(x):
    """Return x * sigmoid(1.702 x), OpenAI's approximation of GELU in CLIP."""
    return x * ops.sigmoid(1.702 * x)


ACTIVATIONS = {"gelu_tanh": gelu_tanh, "gelu": gelu, "quick_gelu": quick_gelu}


def activation_function(name: str):
    """Return the activation `name`: one of `ACTIVATIONS`, or an activation of Keras."""
    try:
        return ACTIVATIONS.get(name) or keras.activations.get(name)
    except ValueError:
        raise ValueError(
            f"activation expected {', '.join(ACTIVATIONS)} or a Keras activation, received {name!r}."
        ) from None


class MLPBlock(Layer):
    """Two dense layers with an activation between them, dropout after each (section 3.1, appendix B.1).

    With a `kernel_size`, a depth-wise convolution over the grid of patches and a second activation follow the first
    dense layer (LocalViT, arXiv 2104.05707, equation 5). Tokens in front of the patches skip the convolution.

    Args:
        mlp_dim: M, the width between the two dense layers.
        activation: `gelu_tanh`, `gelu`, `quick_gelu`, or an activation of Keras.
        dropout_rate: rate after each dense layer, in [0, 1).
        kernel_size: side of the convolution's kernel in patches, odd; 0 for no convolution.
        prefix_tokens: tokens in front of the patches (the class token).

    Input: tokens (B, N, D) and, with a `kernel_size`, the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, N, D).

    Raises:
        ValueError: `dropout_rate` or `kernel_size` is out of range, or the patches are missing.
    """

    def __init__(
        self,
        mlp_dim: int,
        activation: str = "gelu_tanh",
        dropout_rate: float = 0.0,
        kernel_size: int = 0,
        prefix_tokens: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.dropout_rate = require_rate("dropout_rate", dropout_rate)
        self.kernel_size = require_kernel_size("kernel_size", kernel_size)
        self.prefix_tokens = prefix_tokens
        self.activate = activation_function(activation)

    def build(self, tokens_shape, patches_shape=None):
        width = tokens_shape[-1]
        tiny = keras.initializers.RandomNormal(stddev=1e-6)
        self.fc1 = self.make_part(Dense, self.mlp_dim, bias_initializer=tiny, name="fc1")
        self.fc1.build((None, width))
        self.fc2 = self.make_part(Dense, width, bias_initializer=tiny.clone(), name="fc2")
        self.fc2.build((None, self.mlp_dim))
        if self.kernel_size:
            self.local = build_local_conv(self, patches_shape)
        self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def call(self, tokens, patches=None, training=False):
        forward = override_of(self, "forward", training)
        if forward:
            return forward(tokens)
        activate = override_of(self, "activation", training) or self.activate
        hidden = activate(self.fc1(flatten_tokens(tokens)))  # (B * N, M)
        if self.kernel_size:
            hidden = activate(convolve_patches(self, hidden, tokens, patches, training))
        hidden = self.fc2(self.dropout(hidden, training=training))
        return unflatten_tokens(self.dropout(hidden, training=training), tokens)
