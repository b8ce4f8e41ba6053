"""Residual units: ResNet v1 for the hybrids' stem, and pre-activation ResNet v2 for BiT.

B batch, H W C feature map, F filters of a unit's narrow convolutions, 4 F output channels of a unit.
"""

from typing import Any

from keras import ops

from keras_vit.layers.axial import AxialAttention
from keras_vit.layers.base import Layer, require_rank
from keras_vit.layers.groupnorm import GroupNorm
from keras_vit.layers.map_norms import MAP_NORMS
from keras_vit.layers.stdconv import StdConv

_AXIAL_HEADS = 8  # as in Axial-DeepLab (arXiv 2003.07853)


class StemPool(Layer):
    """3 x 3 max pooling with stride 2, after the first convolution.

    Args:
        padding: `same` pads as TensorFlow does, with minus infinity (the hybrids); `zeros` pads every side with zeros
            (BiT), which matters where the map is negative; `symmetric` pads every side with minus infinity (torch).

    Input shape: (B, H, W, C). Output shape: (B, H / 2, W / 2, C).

    Raises:
        ValueError: `padding` is unknown.
    """

    def __init__(self, padding: str = "same", **kwargs: Any):
        super().__init__(**kwargs)
        if padding not in ("same", "zeros", "symmetric"):
            raise ValueError(f"padding expected 'same', 'zeros' or 'symmetric', received {padding!r}.")
        self.padding = padding

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")

    def compute_output_shape(self, input_shape):
        batch, height, width, channels = input_shape
        return (batch, height and -(-height // 2), width and -(-width // 2), channels)

    def call(self, x):
        if self.padding != "same":
            # A copy of the border's own pixels leaves the maximum as minus infinity does, which integers do not have.
            mode = "constant" if self.padding == "zeros" else "symmetric"
            x = ops.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode)
        padding = "same" if self.padding == "same" else "valid"
        return ops.max_pool(x, 3, 2, padding, data_format="channels_last")


class ResidualUnit(Layer):
    """Bottleneck unit of ResNet v1: norm and ReLU after every convolution, the stride in the 3 x 3 (section 4.1).

    Args:
        filters: F.
        strides: of the 3 x 3 convolution.
        group_norm_epsilon: 1e-6 in the official code, 1e-5 in timm.
        weight_epsilon: epsilon of the weight standardisation; 1e-5 in the official code, 1e-8 in timm.
        weight_epsilon_on: where it is added, to the `std` (official) or to the `variance` (timm).
        axial: whether axial attention with 8 heads replaces the 3 x 3 convolution (appendix D.6).

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, 4 F).
    """

    expansion = 4

    def __init__(
        self,
        filters: int,
        strides: int = 1,
        group_norm_epsilon: float = 1e-6,
        weight_epsilon: float = 1e-5,
        weight_epsilon_on: str = "std",
        axial: bool = False,
        **kwargs: Any,
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
        """Build the three convolutions and, where the shape changes, the shortcut's; return the output shape."""
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        options = {"padding": padding, "epsilon": self.weight_epsilon, "epsilon_on": self.weight_epsilon_on}
        shape = self.compute_output_shape(input_shape)
        self.conv1 = self.make_part(StdConv, self.filters, **options, name="conv1")
        self.conv1.build(input_shape)
        if self.axial:
            self.conv2 = self.make_part(AxialAttention, _AXIAL_HEADS, self.strides, name="axial")
        else:
            self.conv2 = self.make_part(StdConv, self.filters, 3, self.strides, **options, name="conv2")
        self.conv2.build((*input_shape[:3], self.filters))
        self.conv3 = self.make_part(StdConv, 4 * self.filters, **options, name="conv3")
        self.conv3.build((*shape[:3], self.filters))
        self.projects = self.strides != 1 or input_shape[-1] != 4 * self.filters
        if self.projects:
            strides = 1 if getattr(self, "average", False) else self.strides
            self.proj = self.make_part(StdConv, 4 * self.filters, 1, strides, **options, name="proj")
            self.proj.build(input_shape)
        return shape

    def _norm(self, name, shape, gamma_initializer="ones"):
        norm = self.make_part(GroupNorm, self.group_norm_epsilon, gamma_initializer, name=name)
        norm.build(shape)
        return norm

    def compute_output_shape(self, input_shape):
        batch, height, width, _ = input_shape
        sides = (side and -(-side // self.strides) for side in (height, width))
        return (batch, *sides, self.expansion * self.filters)

    def call(self, x):
        y = self.norm1(self.conv1(x), relu=True)
        y = self.norm2(self.conv2(y), relu=True)
        y = self.norm3(self.conv3(y))
        return ops.relu(y + (self.proj_norm(self.proj(x)) if self.projects else x))


class PreActivationUnit(ResidualUnit):
    """Bottleneck unit of ResNet v2: norm and ReLU before every convolution, none after the sum (arXiv 1603.05027).

    Args:
        filters: F.
        strides: of the 3 x 3 convolution.
        group_norm_epsilon: 1e-5 in BiT.
        weight_epsilon: epsilon of the weight standardisation; 1e-10 in BiT.
        weight_epsilon_on: where it is added, to the `variance` in BiT.
        axial: whether axial attention with 8 heads replaces the 3 x 3 convolution (arXiv 2010.11929, D.6).
        norm: kind of the norms: `group`, `batch` or `evo` (EvoNorm-S0).
        average: whether a strided shortcut averages 2 x 2 cells before its convolution (ResNet-D, arXiv 1812.01187).

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
        norm: str = "group",
        average: bool = False,
        **kwargs: Any,
    ):
        super().__init__(filters, strides, group_norm_epsilon, weight_epsilon, weight_epsilon_on, axial, **kwargs)
        if norm not in MAP_NORMS:
            raise ValueError(f"norm expected one of {tuple(MAP_NORMS)}, received {norm!r}.")
        self.norm = norm
        self.average = average

    def build(self, input_shape):
        shape = self._convolutions(input_shape, padding="symmetric")
        self.norm1 = self._norm("norm1", input_shape)
        self.norm2 = self._norm("norm2", (*input_shape[:3], self.filters))
        self.norm3 = self._norm("norm3", (*shape[:3], self.filters))

    def _norm(self, name, shape, gamma_initializer="ones"):
        norm = self.make_part(MAP_NORMS[self.norm], self.group_norm_epsilon, gamma_initializer, name=name)
        norm.build(shape)
        return norm

    def call(self, x, training=False):
        active = self._normed(self.norm1, x, training)
        y = self.conv2(self._normed(self.norm2, self.conv1(active), training))
        y = self.conv3(self._normed(self.norm3, y, training))
        return y + self._shortcut(x, active)

    def _normed(self, norm, x, training):
        """Call a norm and its activation."""
        return norm(x, relu=True, **({"training": training} if self.norm == "batch" else {}))

    def _shortcut(self, x, active):
        """Return the input of the unit, or its projection."""
        if not self.projects:
            return x
        if self.average and self.strides > 1:
            active = _averaged(active, self.strides)
        return self.proj(active)


class BasicPreActivationUnit(PreActivationUnit):
    """A `PreActivationUnit` of two 3 x 3 convolutions, of which the first has the stride (ResNet-18 and 34).

    Args: as `PreActivationUnit`. Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, F).
    """

    expansion = 1

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        shape = self.compute_output_shape(input_shape)
        self.norm1 = self._norm("norm1", input_shape)
        self.conv1 = self._conv("conv1", input_shape, 3, self.strides)
        self.norm2 = self._norm("norm2", shape)
        self.conv2 = self._conv("conv2", shape, 3, 1)
        self.projects = self.strides != 1 or input_shape[-1] != self.filters
        if self.projects:
            self.proj = self._conv("proj", input_shape, 1, 1 if self.average else self.strides)

    def _conv(self, name, input_shape, size, strides):
        """Return a built convolution of F filters."""
        options = {"padding": "symmetric", "epsilon": self.weight_epsilon, "epsilon_on": self.weight_epsilon_on}
        conv = self.make_part(StdConv, self.filters, size, strides, **options, name=name)
        conv.build(input_shape)
        return conv

    def call(self, x, training=False):
        active = self._normed(self.norm1, x, training)
        y = self.conv2(self._normed(self.norm2, self.conv1(active), training))
        return y + self._shortcut(x, active)


def _averaged(x, strides: int):
    """Return the means of 2 x 2 cells; cells outside the map do not count: (B, H, W, C) -> (B, H / 2, W / 2, C)."""
    return ops.average_pool(x, 2, strides, "same", data_format="channels_last")
