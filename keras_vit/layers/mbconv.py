"""The layers of EfficientNet: its first convolution, and the inverted residual unit (MBConv).

B batch, H W C feature map, e expansion.
"""

from typing import Any

from keras import ops
from keras.layers import BatchNormalization, Conv2D, DepthwiseConv2D

from keras_vit.layers.base import Configured, Layer, require_rank
from keras_vit.layers.dropout import StochasticDepth

EPSILON = 1e-3  # of the batch norms in TensorFlow's EfficientNets
# A config, because each layer that receives the same initializer would draw the same values.
_INITIALIZER = {
    "class_name": "VarianceScaling",
    "config": {"scale": 2.0, "mode": "fan_out", "distribution": "truncated_normal"},
}
CONVOLUTION = {"padding": "same", "data_format": "channels_last", "kernel_initializer": _INITIALIZER}


class ImageConv(Configured, Conv2D):
    """First convolution: 3 x 3 with stride 2, without bias, padded as TensorFlow does.

    Args:
        filters: number of output channels.
        conversion: how a loaded kernel was converted; saved in the config.
        image_spec: fields of the `keras_vit.ImageSpec` of the weights; saved in the config.

    Input shape: (B, H, W, C). Output shape: (B, H / 2, W / 2, filters).
    """

    def __init__(self, filters: int, conversion: str | None = None, image_spec: dict | None = None, **kwargs: Any):
        super().__init__(filters, 3, 2, use_bias=False, **CONVOLUTION, **kwargs)
        self.conversion = conversion
        self.image_spec = image_spec


class InvertedResidual(Layer):
    """Inverted residual unit with squeeze-and-excitation (MBConv; arXiv 1801.04381, 1709.01507 and 1905.11946).

    Expand by a 1 x 1 convolution, convolve each channel, scale the channels by a function of their means, project by a
    1 x 1 convolution. Every convolution has a batch norm, and all but the projection are followed by swish.

    Args:
        filters: number of output channels.
        kernel_size: side of the depth-wise convolution.
        strides: stride of the depth-wise convolution.
        expansion: e; 1 for no expanding convolution.
        drop_path_rate: probability that an example's branch is dropped in training, in [0, 1). A unit that changes the
            shape has no shortcut, and drops nothing.

    Input shape: (B, H, W, C). Output shape: (B, H / strides, W / strides, filters).
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int = 3,
        strides: int = 1,
        expansion: int = 6,
        drop_path_rate: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = strides
        self.expansion = expansion
        self.drop_path_rate = drop_path_rate
        self.drop_path = self.make_part(StochasticDepth, drop_path_rate, name="drop_path")

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "a feature map (batch, height, width, channels)")
        channels = input_shape[-1]
        width, squeezed = channels * self.expansion, max(1, channels // 4)
        wide, pooled = (*input_shape[:3], width), (input_shape[0], 1, 1)
        strided = self.compute_output_shape(input_shape)
        self.has_shortcut = self.strides == 1 and channels == self.filters
        if self.expansion > 1:
            self.expand = self._part(Conv2D, input_shape, width, 1, use_bias=False, name="expand")
            self.expand_norm = self._part(BatchNormalization, wide, name="expand_norm")
        options = {"strides": self.strides, "use_bias": False, "name": "depthwise"}
        self.depthwise = self._part(DepthwiseConv2D, wide, self.kernel_size, **options)
        self.depthwise_norm = self._part(BatchNormalization, (*strided[:3], width), name="depthwise_norm")
        self.squeeze = self._part(Conv2D, (*pooled, width), squeezed, 1, name="squeeze")
        self.excite = self._part(Conv2D, (*pooled, squeezed), width, 1, name="excite")
        self.project = self._part(Conv2D, (*strided[:3], width), self.filters, 1, use_bias=False, name="project")
        self.project_norm = self._part(BatchNormalization, strided, name="project_norm")

    def _part(self, kind, input_shape, *args, **options):
        """Return a built convolution or batch norm."""
        if kind is BatchNormalization:
            part = self.make_part(kind, epsilon=EPSILON, **options)
        elif kind is DepthwiseConv2D:
            convolution = {name.replace("kernel", "depthwise"): value for name, value in CONVOLUTION.items()}
            part = self.make_part(kind, *args, **convolution, **options)
        else:
            part = self.make_part(kind, *args, **CONVOLUTION, **options)
        part.build(input_shape)
        return part

    def compute_output_shape(self, input_shape):
        batch, height, width, _ = input_shape
        return (batch, *(side and -(-side // self.strides) for side in (height, width)), self.filters)

    def call(self, x, training=False):
        y = x
        if self.expansion > 1:
            y = ops.silu(self.expand_norm(self.expand(y), training=training))
        y = ops.silu(self.depthwise_norm(self.depthwise(y), training=training))
        means = ops.mean(y, axis=(1, 2), keepdims=True)
        y = y * ops.sigmoid(self.excite(ops.silu(self.squeeze(means))))
        y = self.project_norm(self.project(y), training=training)
        return x + self.drop_path(y, training=training) if self.has_shortcut else y
