"""Split images into patches and embed each patch.

B batch, H W C image, P patch height or width, h w patch grid, D width.
"""

from keras import ops

from keras_vit.layers.base import Biased, Layer, require_rank


def as_pair(size: int | tuple[int, int], name: str = "patch_size") -> tuple[int, int]:
    """Return (height, width) of a size given as one int or as two."""
    pair = (size, size) if isinstance(size, int) else size
    valid = isinstance(pair, tuple | list) and len(pair) == 2
    if not valid or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ValueError(f"{name} expected a positive int or (height, width), received {size!r}.")
    return tuple(pair)


def extract_patches(images, patch_size: tuple[int, int]):
    """Split images into patches: (B, H, W, C) -> (B, H // P, W // P, P * P * C).

    The pixels of a patch are in row-major order. Pixels at the right and the bottom that do not fill a patch are
    dropped.
    """
    height, width = patch_size
    _, rows, columns, channels = ops.shape(images)
    h, w = rows // height, columns // width
    # A side that is free at run time is a tensor while TensorFlow traces and cannot be compared: slice always.
    if not all(isinstance(side, int) and side % patch == 0 for side, patch in ((rows, height), (columns, width))):
        images = images[:, : h * height, : w * width, :]
    # The pixels and channels of a patch row are contiguous in memory, so five axes are enough.
    images = ops.reshape(images, (-1, h, height, w, width * channels))
    images = ops.transpose(images, (0, 1, 3, 2, 4))
    return ops.reshape(images, (-1, h, w, height * width * channels))


class PatchExtraction(Layer):
    """Splits images into flattened patches; has no weights.

    Args:
        patch_size: pixels of a patch, one int or (height, width).

    Input shape: (B, H, W, C). Output shape: (B, H // P, W // P, P * P * C).

    Raises:
        ValueError: the input is not an image batch, or is smaller than one patch.
    """

    def __init__(self, patch_size: int | tuple[int, int], **kwargs):
        super().__init__(**kwargs)
        self.patch_size = as_pair(patch_size)

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "images (batch, height, width, channels)")
        if input_shape[-1] is None:
            raise ValueError(f"{self.name} expected a known channel count, received shape {tuple(input_shape)}.")
        self._require_a_whole_patch(input_shape)

    def _require_a_whole_patch(self, image_shape):
        sides = zip(image_shape[1:3], self.patch_size, strict=True)
        if any(isinstance(side, int) and side < patch for side, patch in sides):
            received = "x".join(str(side) for side in image_shape[1:3])
            expected = "x".join(str(side) for side in self.patch_size)
            raise ValueError(
                f"{self.name} expected images of at least one patch ({expected} pixels), received {received}."
            )

    def compute_output_shape(self, input_shape):
        batch, *sides, channels = input_shape
        grid = (side and side // patch for side, patch in zip(sides, self.patch_size, strict=True))
        return (batch, *grid, self.patch_size[0] * self.patch_size[1] * channels)

    def call(self, images):
        self._require_a_whole_patch(images.shape)
        return extract_patches(images, self.patch_size)


class PatchEmbedding(Biased, PatchExtraction):
    """Projects every patch to a vector of width D: a convolution whose stride is its kernel size (section 3.1).

    It is computed as one matrix product over the flattened patches.

    Args:
        width: D, the width of an embedding.
        patch_size: pixels of a patch, one int or (height, width).
        conversion: how a loaded kernel was converted; saved in the config.
        image_spec: fields of the `keras_vit.ImageSpec` of the weights; saved in the config.

    Input shape: (B, H, W, C). Output shape: (B, H // P, W // P, D).

    Raises:
        ValueError: the input is not an image batch, or is smaller than one patch.
    """

    def __init__(
        self,
        width: int,
        patch_size: int | tuple[int, int],
        conversion: str | None = None,
        image_spec: dict | None = None,
        **kwargs,
    ):
        super().__init__(patch_size, **kwargs)
        self.width = width
        self.conversion = conversion
        self.image_spec = image_spec

    def build(self, input_shape):
        super().build(input_shape)
        kernel_shape = (*self.patch_size, input_shape[-1], self.width)
        self.kernel = self.add_weight(name="kernel", shape=kernel_shape, initializer="lecun_normal")
        self.bias = self.add_weight(name="bias", shape=(self.width,), initializer="zeros")

    def compute_output_shape(self, input_shape):
        return (*super().compute_output_shape(input_shape)[:-1], self.width)

    def call(self, images, training=False):
        patches = super().call(images)  # (B, h, w, P * P * C)
        _, h, w, pixels = ops.shape(patches)
        rows = ops.reshape(patches, (-1, pixels))  # flattened, so that the bias fuses into the matmul
        rows = self.add_bias(ops.matmul(rows, ops.reshape(self.kernel, (pixels, self.width))), training)
        return ops.reshape(rows, (-1, h, w, self.width))
