"""Weight-standardised convolution of the hybrids' stem and of BiT.

B batch, H W C feature map.
"""

from typing import Any

from keras import ops

from keras_vit.layers.base import Layer, as_pair, require_rank
from keras_vit.layers.override import override_of


class StdConv(Layer):
    """Convolution without bias whose kernel is standardised over height, width and inputs (arXiv 1903.10520).

    Args:
        filters: number of output channels.
        kernel_size: one int or (height, width).
        strides: stride in both directions.
        padding: `same` pads as TensorFlow does, which may be uneven with a stride; `symmetric` pads `kernel_size // 2`
            zeros on every side.
        epsilon: avoids division by zero.
        epsilon_on: `std` divides by std + epsilon (the official hybrids), `variance` by sqrt(variance + epsilon)
            (BiT and timm). `none` leaves the kernel as it is (ResNets with batch norm).
        conversion: how a loaded kernel was converted; saved in the config.
        image_spec: fields of the `keras_vit.ImageSpec` of the weights; saved in the config of BiT's first layer.

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, filters).

    Raises:
        ValueError: `padding` or `epsilon_on` is unknown, or a symmetrically padded kernel has an even side.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, int] = 1,
        strides: int = 1,
        padding: str = "same",
        epsilon: float = 1e-5,
        epsilon_on: str = "std",
        conversion: str | None = None,
        image_spec: dict | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if padding not in ("same", "symmetric"):
            raise ValueError(f"padding expected 'same' or 'symmetric', received {padding!r}.")
        if padding == "symmetric" and not all(side % 2 for side in as_pair(kernel_size, "kernel_size")):
            raise ValueError(f"kernel_size expected odd sides with padding='symmetric', received {kernel_size!r}.")
        if epsilon_on not in ("std", "variance", "none"):
            raise ValueError(f"epsilon_on expected 'std', 'variance' or 'none', received {epsilon_on!r}.")
        self.filters = filters
        self.kernel_size = as_pair(kernel_size, "kernel_size")
        self.strides = strides
        self.padding = padding
        self.epsilon = epsilon
        self.epsilon_on = epsilon_on
        self.conversion = conversion
        self.image_spec = image_spec

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        shape = (*self.kernel_size, input_shape[-1], self.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="lecun_normal", autocast=False)

    def compute_output_shape(self, input_shape):
        batch, *sides, _ = input_shape
        # Odd kernels padded by half their size and TensorFlow's SAME both give ceil(side / stride).
        return (batch, *(side and -(-side // self.strides) for side in sides), self.filters)

    def standardized_kernel(self, training: bool = False) -> Any:
        """Return the kernel that the convolution uses, with mean 0 and variance 1 for each filter unless plain."""
        if self.epsilon_on == "none":
            return self.kernel
        override = override_of(self, "standardized_kernel", training)
        return override() if override else standardized(ops.cast(self.kernel, "float32"), self.epsilon, self.epsilon_on)

    def call(self, x, training=False):
        padding = "same"
        if self.padding == "symmetric" and self.strides > 1:  # without a stride `same` gives the same padding
            top, left = (size // 2 for size in self.kernel_size)
            x = ops.pad(x, ((0, 0), (top, top), (left, left), (0, 0))) if top or left else x
            padding = "valid"
        kernel = ops.cast(self.standardized_kernel(training), self.compute_dtype)
        convolve = override_of(self, "convolve", training) or convolved
        return convolve(x, kernel, self.strides, padding)


def convolved(x, kernel, strides: int, padding: str):
    """Convolve a map (B, H, W, C) with a kernel (height, width, C, filters)."""
    return ops.conv(x, kernel, strides, padding, data_format="channels_last")


def standardized(kernel, epsilon: float, epsilon_on: str):
    """Standardise a kernel (height, width, inputs, filters): mean 0 and variance 1 for each filter."""
    deviation = kernel - ops.mean(kernel, axis=(0, 1, 2), keepdims=True)
    variance = ops.mean(deviation * deviation, axis=(0, 1, 2), keepdims=True)
    if epsilon_on == "std":
        return deviation / (ops.sqrt(variance) + epsilon)
    return deviation * ops.rsqrt(variance + epsilon)
