"""The pre-LN Transformer encoder block and its parts (section 3.1, equations 2 and 3).

B batch, N tokens, D width, h heads, d = D / h, M MLP width. Matrix products run on flat (B * N, D) rows: there
the bias and the activation fuse into the product, and a free batch size costs no shape arithmetic.
"""

import math

import keras
from keras import ops

from keras_vit.layers.base import Dense, Layer, require_rank, require_rate


def gelu_tanh(x):
    """GELU by its tanh approximation: the one of the official code (flax's default).

    The cube is written as products: Keras's own form has a power in it, which TensorFlow neither fuses into the
    product in front nor computes fast (benchmarks/README.md).
    """
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


def gelu(x):
    """GELU by the error function: timm's and transformers' form. Written with erf so that ONNX exports are valid."""
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def activation_function(name: str):
    """The function called `name`: `gelu_tanh`, `gelu`, or any activation Keras knows."""
    try:
        return {"gelu_tanh": gelu_tanh, "gelu": gelu}.get(name) or keras.activations.get(name)
    except ValueError:
        raise ValueError(f"activation expected gelu_tanh, gelu or a Keras activation, received {name!r}.") from None


def rows(tokens):
    """(B, N, D) -> (B * N, D)."""
    return ops.reshape(tokens, (-1, tokens.shape[-1]))


def like(flat, tokens):
    """(B * N, F) -> (B, N, F) with the N of `tokens`."""
    return ops.reshape(flat, (-1, ops.shape(tokens)[1], flat.shape[-1]))


class LayerNorm(Layer):
    """Layer normalisation over the last axis, in float32 whatever the compute type.

    Written as `d = x - mean; var = mean(d * d)`: this form converts to integer TFLite, and quantises, best.

    Args:
        epsilon: added to the variance; 1e-6 in the official code, 1e-12 in transformers.

    Input and output shape: (..., D).
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros", autocast=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x):
        deviation = ops.cast(x, "float32")
        deviation = deviation - ops.mean(deviation, axis=-1, keepdims=True)
        variance = ops.mean(deviation * deviation, axis=-1, keepdims=True)
        normed = deviation * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normed * ops.cast(self.gamma, "float32") + ops.cast(self.beta, "float32"), self.compute_dtype)


class StochasticDepth(Layer):
    """Drops whole examples of a residual branch while training and rescales the rest (arXiv 1603.09382).

    Args:
        rate: probability that an example's branch is dropped, in [0, 1).

    Input and output shape: (B, ...).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.rate = require_rate("rate", rate)
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, x, training=False):
        if not training or self.rate == 0:
            return x
        shape = (ops.shape(x)[0],) + (1,) * (len(x.shape) - 1)
        uniform = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        kept = ops.cast(uniform >= self.rate, x.dtype)
        return x * kept / (1 - self.rate)


class MultiHeadSelfAttention(Layer):
    """Multi-head self-attention (appendix A).

    Query, key and value share one (D, 3 D) product; each third is initialised as the D x D matrix it is.

    Args:
        num_heads: h; must divide the width.
        attention_dropout_rate: dropout on the attention weights, in [0, 1).

    Input and output shape: (B, N, D).

    Raises:
        ValueError: `num_heads` does not divide the width.
    """

    def __init__(self, num_heads: int, attention_dropout_rate: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout_rate = require_rate("attention_dropout_rate", attention_dropout_rate)
        self.watch = None  # a function that the weights pass on their way to the values: keras_vit.analysis

    def build(self, input_shape):
        require_rank(self, input_shape, 3, "tokens (batch, tokens, width)")
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads expected a divisor of the width {width}, received {self.num_heads}.")
        glorot = keras.initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))
        self.qkv = Dense(3 * width, kernel_initializer=glorot, name="qkv", dtype=self.dtype_policy)
        self.qkv.build((None, width))
        self.out = Dense(width, name="out", dtype=self.dtype_policy)
        self.out.build((None, width))
        self.attention_dropout = keras.layers.Dropout(self.attention_dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _project(self, tokens):
        """Query, already scaled, transposed key, and value: (B, h, N, d), (B, h, d, N) and (B, h, N, d)."""
        width = tokens.shape[-1]
        size = width // self.num_heads
        qkv = ops.reshape(self.qkv(rows(tokens)), (-1, ops.shape(tokens)[1], 3, self.num_heads, size))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3, axis=0)  # each (B, h, N, d)
        return query * size**-0.5, ops.transpose(key, (0, 1, 3, 2)), value

    def attention_weights(self, tokens):
        """The attention each token pays to each: (B, N, D) -> (B, h, N, N), rows summing to 1."""
        query, key, _ = self._project(tokens)
        return ops.softmax(ops.matmul(query, key), axis=-1)

    def call(self, tokens, training=False):
        query, key, value = self._project(tokens)
        weights = ops.softmax(ops.matmul(query, key), axis=-1)
        weights = self.watch(weights) if self.watch else weights
        weights = self.attention_dropout(weights, training=training)
        attended = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))  # (B, N, h, d)
        return like(self.out(ops.reshape(attended, (-1, tokens.shape[-1]))), tokens)


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
        self._activate = activation_function(activation)
        self.activate_in_training = self._activate  # the same function, which a backend may have in a faster form

    def build(self, tokens_shape, patches_shape=None):
        width = tokens_shape[-1]
        tiny = keras.initializers.RandomNormal(stddev=1e-6)
        self.fc1 = Dense(self.mlp_dim, bias_initializer=tiny, name="fc1", dtype=self.dtype_policy)
        self.fc1.build((None, width))
        self.fc2 = Dense(width, bias_initializer=tiny.clone(), name="fc2", dtype=self.dtype_policy)
        self.fc2.build((None, self.mlp_dim))
        if self.kernel_size:
            if patches_shape is None:
                raise ValueError(f"{self.name} expected tokens and patches with kernel_size={self.kernel_size}, "
                                 "received tokens alone.")  # fmt: skip
            # Keras counts all channels as inputs of a depth-wise kernel; each output has kernel_size ** 2 of them.
            even = keras.initializers.TruncatedNormal(stddev=1 / self.kernel_size)
            self.local = keras.layers.DepthwiseConv2D(
                self.kernel_size, padding="same", depthwise_initializer=even, name="local", dtype=self.dtype_policy
            )
            self.local.build((None, None, None, self.mlp_dim))
        self.dropout = keras.layers.Dropout(self.dropout_rate, dtype=self.dtype_policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def call(self, tokens, patches=None, training=False):
        activate = self.activate_in_training if training else self._activate
        hidden = activate(self.fc1(rows(tokens)))  # (B * N, M)
        if self.kernel_size:
            hidden = activate(self._convolved(hidden, tokens, patches))
        hidden = self.fc2(self.dropout(hidden, training=training))
        return like(self.dropout(hidden, training=training), tokens)

    def _convolved(self, hidden, tokens, patches):
        """(B * N, M) -> (B * N, M), the patches' rows convolved over their grid."""
        _, h, w, _ = ops.shape(patches)
        prefix, width = self.prefix_tokens, self.mlp_dim
        if not prefix:
            return ops.reshape(self.local(ops.reshape(hidden, (-1, h, w, width))), (-1, width))
        hidden = like(hidden, tokens)  # (B, prefix + h * w, M)
        grid = self.local(ops.reshape(hidden[:, prefix:], (-1, h, w, width)))
        grid = ops.reshape(grid, (-1, h * w, width))
        return rows(ops.concatenate([hidden[:, :prefix], grid], axis=1))


def require_kernel_size(name: str, size: int) -> int:
    """Return `size` if it is 0 or a positive odd int, else raise a ValueError naming it."""
    if not isinstance(size, int) or size < 0 or (size and size % 2 == 0):
        raise ValueError(f"{name} expected 0 or an odd number of patches, received {size!r}.")
    return size


class EncoderBlock(Layer):
    """x += attention(norm(x)); x += mlp(norm(x)), with dropout and stochastic depth on both branches.

    Args:
        num_heads: heads of the attention; must divide the width.
        mlp_dim: width between the MLP's dense layers.
        activation: the MLP's.
        layer_norm_epsilon: added to the variances of both norms.
        dropout_rate: after the attention's output and after both dense layers of the MLP, in [0, 1).
        attention_dropout_rate: on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of this block, in [0, 1).
        mlp_kernel_size: of the depth-wise convolution inside the MLP, odd; 0 for none.
        prefix_tokens: tokens in front of the patches (the class token), which that convolution leaves out.

    Input: tokens (B, N, D) and, with an `mlp_kernel_size`, the embedded patches (B, h, w, any), whose grid is used.
    Output shape: (B, N, D).

    Raises:
        ValueError: `num_heads` does not divide the width, a rate or the kernel's size is out of range, or there is a
            kernel and no patches.
    """

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-6,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        mlp_kernel_size: int = 0,
        prefix_tokens: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mlp_dim = mlp_dim
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout_rate = require_rate("dropout_rate", dropout_rate)
        self.attention_dropout_rate = require_rate("attention_dropout_rate", attention_dropout_rate)
        self.drop_path_rate = require_rate("drop_path_rate", drop_path_rate)
        self.mlp_kernel_size = require_kernel_size("mlp_kernel_size", mlp_kernel_size)
        self.prefix_tokens = prefix_tokens

    def build(self, tokens_shape, patches_shape=None):
        require_rank(self, tokens_shape, 3, "tokens (batch, tokens, width)")
        policy = self.dtype_policy
        self.attention_norm = LayerNorm(self.layer_norm_epsilon, name="attention_norm", dtype=policy)
        self.attention = MultiHeadSelfAttention(
            self.num_heads, self.attention_dropout_rate, name="attention", dtype=policy
        )
        self.mlp_norm = LayerNorm(self.layer_norm_epsilon, name="mlp_norm", dtype=policy)
        local = {"kernel_size": self.mlp_kernel_size, "prefix_tokens": self.prefix_tokens}
        self.mlp = MLPBlock(self.mlp_dim, self.activation, self.dropout_rate, **local, name="mlp", dtype=policy)
        for part in (self.attention_norm, self.attention, self.mlp_norm):
            part.build(tokens_shape)
        self.mlp.build(tokens_shape, patches_shape)
        self.dropout = keras.layers.Dropout(self.dropout_rate, dtype=policy)
        self.drop_path = StochasticDepth(self.drop_path_rate, dtype=policy)

    def compute_output_shape(self, tokens_shape, patches_shape=None):
        return tokens_shape

    def call(self, tokens, patches=None, training=False):
        branch = self.attention(self.attention_norm(tokens), training=training)
        branch = self.dropout(branch, training=training)
        tokens = tokens + self.drop_path(branch, training=training)
        branch = self.mlp(self.mlp_norm(tokens), patches, training=training)
        return tokens + self.drop_path(branch, training=training)

    def attention_weights(self, tokens):
        """The attention weights this block computes on its input: (B, N, D) -> (B, h, N, N)."""
        return self.attention.attention_weights(self.attention_norm(tokens))
