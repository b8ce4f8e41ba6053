"""The MLP of an encoder block, and its activations (section 3.1, appendix B.1).

B batch, N tokens, D width, M MLP width. Matrix products run on flat (B * N, D) rows: there the bias and the activation
fuse into the product, and a free batch size costs no shape arithmetic.
"""

import math

import keras
from keras import ops

from keras_vit.layers.base import (
    Biased,
    Dense,
    Layer,
    flatten_tokens,
    half_on_jax,
    require_rate,
    unflatten_tokens,
)
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.override import override_of


def gelu_tanh(x):
    """GELU by its tanh approximation: the one of the official code (flax's default).

    The cube is written as products: Keras's own form has a power in it, which TensorFlow neither fuses into the
    product in front nor computes fast (benchmarks/notes).
    """
    if half_on_jax(x):
        return _x_times(_logistic, x)
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


def gelu(x):
    """GELU by the error function: timm's and transformers' form. Written with erf so that ONNX exports are valid."""
    if half_on_jax(x):
        return _x_times(_normal, x)
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def _logistic(x):
    """GELU's factor of x by the approximation, where (1 + tanh(u)) / 2 is the logistic function of 2 u; its slope."""
    scale = 2 * math.sqrt(2 / math.pi)
    factor = ops.sigmoid(scale * (x + 0.044715 * (x * x * x)))
    return factor, factor * (1 - factor) * scale * (1 + 3 * 0.044715 * (x * x))


def _normal(x):
    """GELU's factor of x, the normal distribution's probability of less; its slope, the density."""
    return 0.5 * (1 + ops.erf(x / math.sqrt(2))), ops.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _x_times(factor_and_slope, x):
    """A factor times x, computed in float32; for its gradient nothing but x is kept, where XLA would keep more."""

    @ops.custom_gradient
    def product(x):
        def gradient(upstream):
            wide = ops.cast(x, "float32")
            factor, slope = factor_and_slope(wide)
            return ops.cast(ops.cast(upstream, "float32") * (factor + wide * slope), x.dtype)

        wide = ops.cast(x, "float32")
        return ops.cast(wide * factor_and_slope(wide)[0], x.dtype), gradient

    return product(x)


def activation_function(name: str):
    """The function called `name`: `gelu_tanh`, `gelu`, or any activation Keras knows."""
    try:
        return {"gelu_tanh": gelu_tanh, "gelu": gelu}.get(name) or keras.activations.get(name)
    except ValueError:
        raise ValueError(f"activation expected gelu_tanh, gelu or a Keras activation, received {name!r}.") from None


class LocalConv(Biased, keras.layers.DepthwiseConv2D):
    """Keras's depth-wise convolution, of stride 1 and with a bias: (B, h, w, M) -> (B, h, w, M)."""

    def call(self, grid, training=False):
        convolved = ops.depthwise_conv(grid, self.kernel, padding=self.padding, data_format=self.data_format)
        return self.add_bias(convolved, training)


class MLPBlock(Layer):
    """Two dense layers with an activation between them, dropout after each (section 3.1, appendix B.1).

    With a `kernel_size` it sees its neighbours, too: a depth-wise convolution over the grid of patches and the
    activation once more stand between the two (LocalViT, arXiv 2104.05707, equation 5); tokens in front of the
    patches pass the convolution by.

    Args:
        mlp_dim: M, the width between the two.
        activation: `gelu_tanh`, `gelu`, or an activation Keras knows.
        dropout_rate: in [0, 1).
        kernel_size: patches along a side of the convolution's kernel, odd; 0 for no convolution.
        prefix_tokens: tokens in front of the patches (the class token).

    Input: tokens (B, N, D) and, with a `kernel_size`, the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, N, D).

    Raises:
        ValueError: `dropout_rate` or `kernel_size` is out of range, or there is a `kernel_size` and no patches.
    """

    def __init__(
        self,
        mlp_dim: int,
        activation: str = "gelu_tanh",
        dropout_rate: float = 0.0,
        kernel_size: int = 0,
        prefix_tokens: int = 0,
        **kwargs,
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
            if patches_shape is None:
                raise ValueError(f"{self.name} expected tokens and patches with kernel_size={self.kernel_size}, "
                                 "received tokens alone.")  # fmt: skip
            # Keras counts all channels as inputs of a depth-wise kernel; each output has kernel_size ** 2 of them.
            even = keras.initializers.TruncatedNormal(stddev=1 / self.kernel_size)
            options = {"padding": "same", "data_format": "channels_last", "depthwise_initializer": even}
            self.local = self.make_part(LocalConv, self.kernel_size, name="local", **options)
            self.local.build((None, None, None, self.mlp_dim))
        self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def call(self, tokens, patches=None, training=False):
        forward = override_of(self, "forward", training)
        if forward:
            return forward(tokens)
        hidden = self.fc1(flatten_tokens(tokens))  # (B * N, M)
        activate = override_of(self, "activation", training) or self.activate
        hidden = activate(hidden)
        if self.kernel_size:
            hidden = activate(self._convolved(hidden, tokens, patches, training))
        hidden = self.fc2(self.dropout(hidden, training=training))
        return unflatten_tokens(self.dropout(hidden, training=training), tokens)

    def _convolved(self, hidden, tokens, patches, training):
        """(B * N, M) -> (B * N, M), the patches' rows convolved over their grid."""
        _, h, w, _ = ops.shape(patches)
        prefix, width = self.prefix_tokens, self.mlp_dim
        if not prefix:
            grid = self.local(ops.reshape(hidden, (-1, h, w, width)), training=training)
            return ops.reshape(grid, (-1, width))
        hidden = unflatten_tokens(hidden, tokens)  # (B, prefix + h * w, M)
        grid = self.local(ops.reshape(hidden[:, prefix:], (-1, h, w, width)), training=training)
        grid = ops.reshape(grid, (-1, h * w, width))
        return flatten_tokens(ops.concatenate([hidden[:, :prefix], grid], axis=1))


def require_kernel_size(name: str, size: int) -> int:
    """Return `size` if it is 0 or a positive odd int, else raise a ValueError naming it."""
    if not isinstance(size, int) or size < 0 or (size and size % 2 == 0):
        raise ValueError(f"{name} expected 0 or an odd number of patches, received {size!r}.")
    return size
