"""The convolutional parts: the hybrids' ResNet v1 stem and BiT's pre-activation ResNet v2. They share no unit.

B batch, H W C feature map, F filters of the narrow convolutions of a unit, 4 F the channels it puts out.
"""

import contextlib

import keras
from keras import ops

from keras_vit.layers.axial import AxialAttention
from keras_vit.layers.base import Layer, require_rank
from keras_vit.layers.patches import as_pair

_GROUPS = 32
_AXIAL_HEADS = 8  # Axial-DeepLab's (arXiv 2003.07853)


class GroupNorm(Layer):
    """Group normalisation over 32 groups of channels, in float32 whatever the compute type.

    Args:
        epsilon: added to the variance; 1e-6 in the official hybrids, 1e-5 in BiT and timm.
        gamma_initializer: start of the scale; zeros on the last norm of a v1 unit.

    Input and output shape: (B, H, W, C). Called with `relu=True` it ends in a ReLU, which a backend may compute along.

    Raises:
        ValueError: the channels are no multiple of 32.
    """

    def __init__(self, epsilon: float = 1e-6, gamma_initializer: str = "ones", **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.gamma_initializer = gamma_initializer
        self.norm_in_training = self.norm = group_norm  # the same function, which a backend may have in a faster form

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        channels = input_shape[-1]
        if channels % _GROUPS:
            raise ValueError(f"{self.name} expected channels that are a multiple of {_GROUPS}, received {channels}.")
        self.gamma = self.add_weight(
            name="gamma", shape=(channels,), initializer=self.gamma_initializer, autocast=False
        )
        self.beta = self.add_weight(name="beta", shape=(channels,), initializer="zeros", autocast=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, relu=False, training=False):
        norm = self.norm_in_training if training else self.norm
        gamma, beta = (ops.cast(variable, "float32") for variable in (self.gamma, self.beta))
        return norm(x, gamma, beta, self.epsilon, relu)


def group_norm(x, gamma, beta, epsilon: float, relu: bool = False):
    """Group normalisation in float32, and a ReLU where asked: (B, H, W, C), (C,), (C,) -> the same in x's type."""
    # Means over the pixels first: a reduction over contiguous channels, then a small one inside the groups.
    deviation = ops.cast(x, "float32")
    deviation = deviation - _means(deviation)
    scale = ops.rsqrt(_means(deviation * deviation) + epsilon) * gamma
    normed = ops.cast(deviation * scale + beta, x.dtype)
    return ops.relu(normed) if relu else normed


def _means(x):
    """Mean over the pixels and the channels of a group, for each channel: (B, H, W, C) -> (B, 1, 1, C)."""
    return mean_of_groups(ops.mean(x, axis=(1, 2)))[:, None, None, :]


def mean_of_groups(x):
    """Each channel's number -> the mean of its group's: (B, C) -> (B, C)."""
    channels = x.shape[-1]
    mean = ops.mean(ops.reshape(x, (-1, _GROUPS, channels // _GROUPS)), axis=-1)
    return ops.repeat(mean, channels // _GROUPS, axis=-1)


class StdConv(Layer):
    """Convolution without bias whose kernel is standardised over height, width and inputs (arXiv 1903.10520).

    Args:
        filters: channels put out.
        kernel_size: one int or (height, width).
        strides: pixels from one output to the next, in both directions.
        padding: `same` pads as TensorFlow does, unevenly where the stride asks for it; `symmetric` pads
            `kernel_size // 2` zeros on every side.
        epsilon: against division by zero.
        epsilon_on: `std` divides by std + epsilon (the official hybrids), `variance` by sqrt(variance + epsilon)
            (BiT and timm).
        conversion: how a loaded kernel was changed to fit, kept in the config.

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, filters).

    Raises:
        ValueError: `padding` or `epsilon_on` is unknown.
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        if padding not in ("same", "symmetric"):
            raise ValueError(f"padding expected 'same' or 'symmetric', received {padding!r}.")
        if epsilon_on not in ("std", "variance"):
            raise ValueError(f"epsilon_on expected 'std' or 'variance', received {epsilon_on!r}.")
        self.filters = filters
        self.kernel_size = as_pair(kernel_size, "kernel_size")
        self.strides = strides
        self.padding = padding
        self.epsilon = epsilon
        self.epsilon_on = epsilon_on
        self.conversion = conversion
        self.standardized_in_training = standardized  # the same function, which a backend may have in a faster form

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        shape = (*self.kernel_size, input_shape[-1], self.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="lecun_normal", autocast=False)

    def compute_output_shape(self, input_shape):
        batch, *sides, _ = input_shape
        # Odd kernels padded by half their size and TensorFlow's SAME both give ceil(side / stride).
        return (batch, *(side and -(-side // self.strides) for side in sides), self.filters)

    def standardized_kernel(self, training=False):
        """The kernel as the convolution uses it: mean 0 and variance 1 for each filter."""
        function = self.standardized_in_training if training else standardized
        return function(ops.cast(self.kernel, "float32"), self.epsilon, self.epsilon_on)

    def call(self, x, training=False):
        padding = "same"
        if self.padding == "symmetric" and self.strides > 1:  # without strides `same` is just that
            top, left = (size // 2 for size in self.kernel_size)
            x = ops.pad(x, ((0, 0), (top, top), (left, left), (0, 0))) if top or left else x
            padding = "valid"
        kernel = ops.cast(self.standardized_kernel(training), self.compute_dtype)
        return ops.conv(x, kernel, self.strides, padding, data_format="channels_last")


def standardized(kernel, epsilon: float, epsilon_on: str):
    """A kernel (height, width, inputs, filters) with mean 0 and variance 1 for each filter, as `StdConv` says."""
    deviation = kernel - ops.mean(kernel, axis=(0, 1, 2), keepdims=True)
    variance = ops.mean(deviation * deviation, axis=(0, 1, 2), keepdims=True)
    if epsilon_on == "std":
        return deviation / (ops.sqrt(variance) + epsilon)
    return deviation * ops.rsqrt(variance + epsilon)


def standardized_kernels(model) -> list:
    """Each `StdConv` of a model with the kernel that it uses, in a variable of the type that it computes in."""
    found = [layer for layer in model._flatten_layers() if isinstance(layer, StdConv)]
    in_use = lambda layer: ops.cast(layer.standardized_kernel(), layer.compute_dtype)  # noqa: E731
    return [(layer, keras.Variable(in_use(layer), dtype=layer.compute_dtype, trainable=False)) for layer in found]


@contextlib.contextmanager
def taking_kernels(kernels):
    """While entered, or in a function so decorated, convolutions take these `standardized_kernels`."""
    for layer, kernel in kernels:
        layer.standardized_kernel = lambda training, kernel=kernel: kernel
    try:
        yield
    finally:
        for layer, _ in kernels:
            del layer.standardized_kernel


class StemPool(Layer):
    """3 x 3 maximum of every second pixel, behind the first convolution.

    Args:
        padding: `same` as TensorFlow pads, with minus infinity (the hybrids); `zeros` on every side, which counts
            where the map is negative (BiT's released weights were trained so).

    Input shape: (B, H, W, C). Output shape: (B, H / 2, W / 2, C).

    Raises:
        ValueError: `padding` is unknown.
    """

    def __init__(self, padding: str = "same", **kwargs):
        super().__init__(**kwargs)
        if padding not in ("same", "zeros"):
            raise ValueError(f"padding expected 'same' or 'zeros', received {padding!r}.")
        self.padding = padding

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")

    def compute_output_shape(self, input_shape):
        batch, height, width, channels = input_shape
        return (batch, height and -(-height // 2), width and -(-width // 2), channels)

    def call(self, x):
        if self.padding == "zeros":
            x = ops.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        padding = "valid" if self.padding == "zeros" else "same"
        return ops.max_pool(x, 3, 2, padding, data_format="channels_last")


class ResidualUnit(Layer):
    """Bottleneck unit of ResNet v1: norm and ReLU behind every convolution, the stride in the 3 x 3 (section 4.1).

    Args:
        filters: F.
        strides: of the 3 x 3 convolution.
        group_norm_epsilon: 1e-6 in the official code, 1e-5 in timm.
        weight_epsilon: of the weight standardisation; 1e-5 in the official code, 1e-8 in timm.
        weight_epsilon_on: what it is added to, `std` (official) or `variance` (timm).
        axial: whether axial attention with 8 heads stands in place of the 3 x 3 convolution (appendix D.6).

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, 4 F).
    """

    def __init__(
        self,
        filters: int,
        strides: int = 1,
        group_norm_epsilon: float = 1e-6,
        weight_epsilon: float = 1e-5,
        weight_epsilon_on: str = "std",
        axial: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.strides = strides
        self.group_norm_epsilon = group_norm_epsilon
        self.weight_epsilon = weight_epsilon
        self.weight_epsilon_on = weight_epsilon_on
        self.axial = axial

    def build(self, input_shape):
        shape = self._convolutions(input_shape, padding="same")
        self.norm1 = self._norm("norm1", (*shape[:3], self.filters))
        self.norm2 = self._norm("norm2", (*shape[:3], self.filters))
        self.norm3 = self._norm("norm3", shape, gamma_initializer="zeros")
        if self.projects:
            self.proj_norm = self._norm("proj_norm", shape)

    def _convolutions(self, input_shape, padding):
        """Build the three convolutions, and the shortcut's where the shape changes; returns the output's shape."""
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        options = {"padding": padding, "epsilon": self.weight_epsilon, "epsilon_on": self.weight_epsilon_on}
        options["dtype"] = self.dtype_policy
        shape = self.compute_output_shape(input_shape)
        self.conv1 = StdConv(self.filters, **options, name="conv1")
        self.conv1.build(input_shape)
        if self.axial:
            self.conv2 = AxialAttention(_AXIAL_HEADS, self.strides, name="axial", dtype=self.dtype_policy)
        else:
            self.conv2 = StdConv(self.filters, 3, self.strides, **options, name="conv2")
        self.conv2.build((*input_shape[:3], self.filters))
        self.conv3 = StdConv(4 * self.filters, **options, name="conv3")
        self.conv3.build((*shape[:3], self.filters))
        self.projects = self.strides != 1 or input_shape[-1] != 4 * self.filters
        if self.projects:
            self.proj = StdConv(4 * self.filters, 1, self.strides, **options, name="proj")
            self.proj.build(input_shape)
        return shape

    def _norm(self, name, shape, gamma_initializer="ones"):
        norm = GroupNorm(self.group_norm_epsilon, gamma_initializer, name=name, dtype=self.dtype_policy)
        norm.build(shape)
        return norm

    def compute_output_shape(self, input_shape):
        batch, height, width, _ = input_shape
        return (batch, *(side and -(-side // self.strides) for side in (height, width)), 4 * self.filters)

    def call(self, x):
        y = self.norm1(self.conv1(x), relu=True)
        y = self.norm2(self.conv2(y), relu=True)
        y = self.norm3(self.conv3(y))
        return ops.relu(y + (self.proj_norm(self.proj(x)) if self.projects else x))


class PreActivationUnit(ResidualUnit):
    """Bottleneck unit of ResNet v2: norm and ReLU before every convolution, none behind the sum (arXiv 1603.05027).

    Args:
        filters: F.
        strides: of the 3 x 3 convolution.
        group_norm_epsilon: 1e-5 in BiT.
        weight_epsilon: of the weight standardisation; 1e-10 in BiT.
        weight_epsilon_on: what it is added to, `variance` in BiT.
        axial: whether axial attention with 8 heads stands in place of the 3 x 3 convolution (arXiv 2010.11929, D.6).

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, 4 F).
    """

    def __init__(
        self,
        filters: int,
        strides: int = 1,
        group_norm_epsilon: float = 1e-5,
        weight_epsilon: float = 1e-10,
        weight_epsilon_on: str = "variance",
        axial: bool = False,
        **kwargs,
    ):
        super().__init__(filters, strides, group_norm_epsilon, weight_epsilon, weight_epsilon_on, axial, **kwargs)

    def build(self, input_shape):
        shape = self._convolutions(input_shape, padding="symmetric")
        self.norm1 = self._norm("norm1", input_shape)
        self.norm2 = self._norm("norm2", (*input_shape[:3], self.filters))
        self.norm3 = self._norm("norm3", (*shape[:3], self.filters))

    def call(self, x):
        active = self.norm1(x, relu=True)
        y = self.conv2(self.norm2(self.conv1(active), relu=True))
        y = self.conv3(self.norm3(y, relu=True))
        return y + (self.proj(active) if self.projects else x)
