"""The depth-wise convolution over the patch tokens in an MLP (LocalViT, arXiv 2104.05707, equation 5).

B batch, h w patch grid, N tokens, M MLP width.
"""

import keras
from keras import ops

from keras_vit.layers.base import Biased, flatten_tokens, unflatten_tokens


class LocalConv(Biased, keras.layers.DepthwiseConv2D):
    """Depth-wise convolution of Keras with stride 1 and a bias: (B, h, w, M) -> (B, h, w, M)."""

    def call(self, grid, training=False):
        convolved = ops.depthwise_conv(grid, self.kernel, padding=self.padding, data_format=self.data_format)
        return self.add_bias(convolved, training)


def build_local_conv(mlp, patches_shape) -> LocalConv:
    """Build the convolution of an MLP with a `kernel_size`."""
    if patches_shape is None:
        raise ValueError(f"{mlp.name} expected tokens and patches with kernel_size={mlp.kernel_size}, "
                         "received tokens alone.")  # fmt: skip
    # Keras's fan-in of a depth-wise kernel counts all channels; each output has kernel_size ** 2 inputs.
    initializer = keras.initializers.TruncatedNormal(stddev=1 / mlp.kernel_size)
    options = {"padding": "same", "data_format": "channels_last", "depthwise_initializer": initializer}
    local = mlp.make_part(LocalConv, mlp.kernel_size, name="local", **options)
    local.build((None, None, None, mlp.mlp_dim))
    return local


def convolve_patches(mlp, hidden, tokens, patches, training):
    """Convolve the patch tokens over their grid: (B * N, M) -> (B * N, M)."""
    _, h, w, _ = ops.shape(patches)
    prefix, width = mlp.prefix_tokens, mlp.mlp_dim
    if not prefix:
        grid = mlp.local(ops.reshape(hidden, (-1, h, w, width)), training=training)
        return ops.reshape(grid, (-1, width))
    hidden = unflatten_tokens(hidden, tokens)  # (B, prefix + h * w, M)
    grid = mlp.local(ops.reshape(hidden[:, prefix:], (-1, h, w, width)), training=training)
    grid = ops.reshape(grid, (-1, h * w, width))
    return flatten_tokens(ops.concatenate([hidden[:, :prefix], grid], axis=1))


def require_kernel_size(name: str, size: int) -> int:
    """Return `size` if it is 0 or a positive odd int, else raise a ValueError naming it."""
    if not isinstance(size, int) or size < 0 or (size and size % 2 == 0):
        raise ValueError(f"{name} expected 0 or an odd number of patches, received {size!r}.")
    return size
