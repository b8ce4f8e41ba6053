"""The MLP of an encoder block, and its activations (section 3.1, appendix B.1).

B batch, N tokens, D width, M MLP width. Matrix products use flattened tokens (B * N, D): the bias and the activation
fuse into the matmul, and a free batch size costs no shape arithmetic.
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
    """Return the tanh approximation of GELU, as in the official code (flax's default).

    The cube is written as a product. Keras writes a power, which TensorFlow does not fuse into the matmul.
    """
    if half_on_jax(x):
        return _x_times(_logistic, x)
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


def gelu(x):
    """Return exact GELU, as in timm and transformers; written with erf, which ONNX has."""
    if half_on_jax(x):
        return _x_times(_normal, x)
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def _logistic(x):
    """Return (1 + tanh(u)) / 2, the logistic function of 2 u, and its derivative by x."""
    scale = 2 * math.sqrt(2 / math.pi)
    factor = ops.sigmoid(scale * (x + 0.044715 * (x * x * x)))
    return factor, factor * (1 - factor) * scale * (1 + 3 * 0.044715 * (x * x))


def _normal(x):
    """Return the cumulative distribution function of the normal distribution at x, and its density."""
    return 0.5 * (1 + ops.erf(x / math.sqrt(2))), ops.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _x_times(factor_and_slope, x):
    """Return factor(x) times x, computed in float32. Only x is saved for the gradient; XLA would save more."""

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
    """Return the activation `name`: `gelu_tanh`, `gelu`, or an activation of Keras."""
    try:
        return {"gelu_tanh": gelu_tanh, "gelu": gelu}.get(name) or keras.activations.get(name)
    except ValueError:
        raise ValueError(f"activation expected gelu_tanh, gelu or a Keras activation, received {name!r}.") from None


class LocalConv(Biased, keras.layers.DepthwiseConv2D):
    """Depth-wise convolution of Keras with stride 1 and a bias: (B, h, w, M) -> (B, h, w, M)."""

    def call(self, grid, training=False):
        convolved = ops.depthwise_conv(grid, self.kernel, padding=self.padding, data_format=self.data_format)
        return self.add_bias(convolved, training)


class MLPBlock(Layer):
    """Two dense layers with an activation between them, dropout after each (section 3.1, appendix B.1).

    With a `kernel_size`, a depth-wise convolution over the grid of patches and a second activation stand between the
    dense layers (LocalViT, arXiv 2104.05707, equation 5). Tokens in front of the patches skip the convolution.

    Args:
        mlp_dim: M, the width between the two dense layers.
        activation: `gelu_tanh`, `gelu`, or an activation of Keras.
        dropout_rate: in [0, 1).
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
            # Keras's fan-in of a depth-wise kernel counts all channels; each output has kernel_size ** 2 inputs.
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
        """Convolve the patch tokens over their grid: (B * N, M) -> (B * N, M)."""
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
