"""From an image to the first token sequence (section 3.1, equation 1).

The steps are patch embedding, flattening to a sequence, registers and class token, position embedding.

B batch, H W C image, P patch height or width, h w patch grid, N tokens, D width.
"""

from typing import Any

import keras
from keras import ops

from keras_vit.layers.base import Biased, Layer, as_pair, require_rank
from keras_vit.layers.resize_positions import resized_positions


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

    def __init__(self, patch_size: int | tuple[int, int], **kwargs: Any):
        super().__init__(**kwargs)
        self.patch_size = as_pair(patch_size)

    def build(self, input_shape):
        require_rank(self, input_shape, 4, "images (batch, height, width, channels)")
        if input_shape[-1] is None:
            raise ValueError(f"{self.name} expected a known channel count, received shape {tuple(input_shape)}.")
        self._check_size(input_shape)

    def _check_size(self, image_shape):
        sides = zip(image_shape[1:3], self.patch_size, strict=True)
        if any(isinstance(side, int) and side < patch for side, patch in sides):
            expected, received = ("x".join(map(str, pair)) for pair in (self.patch_size, image_shape[1:3]))
            raise ValueError(
                f"{self.name} expected images of at least one patch ({expected} pixels), received {received}."
            )

    def compute_output_shape(self, input_shape):
        batch, *sides, channels = input_shape
        grid = (side and side // patch for side, patch in zip(sides, self.patch_size, strict=True))
        return (batch, *grid, self.patch_size[0] * self.patch_size[1] * channels)

    def call(self, images):
        self._check_size(images.shape)
        return extract_patches(images, self.patch_size)


class PatchEmbedding(Biased, PatchExtraction):
    """Projects every flattened patch to a vector of width D, in one matrix product (section 3.1).

    Args:
        width: D, the width of an embedding.
        patch_size: pixels of a patch, one int or (height, width).
        use_bias: whether a bias is added.
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
        use_bias: bool = True,
        conversion: str | None = None,
        image_spec: dict | None = None,
        **kwargs: Any,
    ):
        super().__init__(patch_size, **kwargs)
        self.width = width
        self.use_bias = use_bias
        self.conversion = conversion
        self.image_spec = image_spec

    def build(self, input_shape):
        super().build(input_shape)
        kernel_shape = (*self.patch_size, input_shape[-1], self.width)
        self.kernel = self.add_weight(name="kernel", shape=kernel_shape, initializer="lecun_normal")
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.width,), initializer="zeros")

    def compute_output_shape(self, input_shape):
        return (*super().compute_output_shape(input_shape)[:-1], self.width)

    def call(self, images, training=False):
        patches = super().call(images)  # (B, h, w, P * P * C)
        _, h, w, pixels = ops.shape(patches)
        flat = ops.reshape(patches, (-1, pixels))  # flattened, so that the bias fuses into the matmul
        flat = ops.matmul(flat, ops.reshape(self.kernel, (pixels, self.width)))
        flat = self.add_bias(flat, training) if self.use_bias else flat
        return ops.reshape(flat, (-1, h, w, self.width))


class PrefixTokens(Layer):
    """Put learned tokens in front of a sequence.

    A subclass names its tokens by `kind`, and `prefix_layers.py` lists it. `keras_vit.token_layout` reads the kind.

    Args:
        count: number of tokens.

    Input shape: (B, N, D). Output shape: (B, count + N, D).
    """

    kind = "token"
    initializer: str | dict = "zeros"

    def __init__(self, count: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        self.count = count

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        shape = (1, self.count, input_shape[-1])
        self.token = self.add_weight(name="token", shape=shape, initializer=self.initializer)

    def compute_output_shape(self, input_shape):
        batch, tokens, width = input_shape
        return (batch, tokens and tokens + self.count, width)

    def call(self, tokens):
        token = ops.broadcast_to(self.token, (ops.shape(tokens)[0], self.count, tokens.shape[-1]))
        return ops.concatenate([ops.cast(token, tokens.dtype), tokens], axis=1)


class ClassToken(PrefixTokens):
    """Put one learned class token in front of a sequence (section 3.1, equation 1).

    Input shape: (B, N, D). Output shape: (B, 1 + N, D).
    """

    kind = "class"


class Positions(Layer):
    """Base of the position layers. If the image size is free at run time, the embedded patches state the grid."""

    def __init__(self, grid: int | tuple[int, int], prefix_tokens: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.grid = as_pair(grid, "grid")
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, patches_shape=None):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        self.num_tokens = self.prefix_tokens + self.grid[0] * self.grid[1]
        if patches_shape is None and tokens_shape[1] != self.num_tokens:
            raise ValueError(
                f"{self.name} expected {self.num_tokens} tokens for its grid {self.grid}, received {tokens_shape[1]}."
            )

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape


class PositionEmbedding(Positions):
    """Adds a learned position embedding to every token, including the class token.

    Args:
        grid: patches (down, across) of the stored embedding.
        prefix_tokens: tokens in front of the patches (class token, registers).
        prefix_positions: whether the tokens in front of the patches have positions, too.
        conversion, resize: how a loaded embedding was converted, and its publisher's method; saved in the config.

    Input: tokens (B, prefix_tokens + h * w, D) and, if the image size is free at run time, the embedded patches
    (B, h, w, any). The embedding is then resized to the grid of the patches inside the graph, by corner-aligned
    bilinear interpolation as in the official code (section 3.2). Output shape: the shape of the tokens.

    Raises:
        ValueError: the number of tokens does not match the grid.
    """

    def __init__(
        self,
        grid: int | tuple[int, int],
        prefix_tokens: int = 0,
        prefix_positions: bool = True,
        conversion: str | None = None,
        resize: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(grid, prefix_tokens, **kwargs)
        self.prefix_positions, self.conversion, self.resize = prefix_positions, conversion, resize

    @property
    def stored_prefix(self) -> int:
        """Return the number of tokens in front of the patches that have a position."""
        return self.prefix_tokens if self.prefix_positions else 0

    def build(self, tokens_shape, patches_shape=None):
        super().build(tokens_shape, patches_shape)
        self.embedding = self.add_weight(
            name="embedding",
            shape=(1, self.stored_prefix + self.grid[0] * self.grid[1], tokens_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, tokens, patches=None):
        embedding = self.embedding
        if patches is not None and tuple(patches.shape[1:3]) != self.grid:
            embedding = resized_positions(embedding, self.stored_prefix, self.grid, ops.shape(patches)[1:3])
        if self.stored_prefix < self.prefix_tokens:
            embedding = ops.pad(embedding, ((0, 0), (self.prefix_tokens, 0), (0, 0)))
        return tokens + embedding
